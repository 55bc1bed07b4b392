"""Checks docker-compose.yml and the YAML shown in the documentation, as far as that goes without Docker."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent


def compose() -> None:
    document = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    services = document["services"]
    assert set(services) == {"sandbox", "postgres"}, services.keys()
    for name, service in services.items():
        test = service["healthcheck"]["test"]
        assert test[0] == "CMD" and len(test) > 1, (name, test)

    sandbox, postgres = services["sandbox"], services["postgres"]
    assert sandbox["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert any(port.endswith("5856:5856") for port in sandbox["ports"])
    assert sandbox["environment"]["KUKOPAY_HOST"] == "0.0.0.0"
    assert sandbox["environment"]["KUKOPAY_PUBLIC_URL"] == "http://localhost:5856"

    settings = postgres["environment"]
    user, password, name = (settings["POSTGRES_" + key] for key in ("USER", "PASSWORD", "DB"))
    assert sandbox["environment"]["DATABASE_URL"] == f"postgres://{user}:{password}@postgres:5432/{name}"
    assert postgres["image"] == "postgres:17"
    volume = postgres["volumes"][0].split(":")[0]
    assert volume in document["volumes"], volume


def documentation() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.S | re.M)
    assert blocks, "no page shows YAML"
    for block in blocks:
        yaml.safe_load(block)


if __name__ == "__main__":
    compose()
    documentation()
    print("docker-compose.yml and the YAML in the documentation are well-formed")
