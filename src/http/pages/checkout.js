// What the checkout page can do better with a script: it counts down, groups digits, fills in a test card
// without a reload, and sends a form once. Everything works without it.
'use strict';

const number = document.getElementById('number');
const fields = ['number', 'expiry', 'cvc'].map((name) => document.getElementById(name));

function grouped(digits) {
  const sizes = /^3[47]/.test(digits) ? [4, 6, 5] : [4, 4, 4, 4, 3];
  const groups = [];
  for (const size of sizes) {
    if (digits === '') break;
    groups.push(digits.slice(0, size));
    digits = digits.slice(size);
  }
  return groups.join(' ');
}

function digitsOf(text) {
  return text.replace(/\D/g, '');
}

// Rewrites a field while somebody types in it, and keeps the caret behind the digit that it was behind.
function rewrite(input, write) {
  const before = digitsOf(input.value.slice(0, input.selectionStart ?? input.value.length)).length;
  const text = write(digitsOf(input.value));
  if (text === input.value) return;
  input.value = text;
  let caret = 0;
  for (let seen = 0; seen < before && caret < text.length; caret += 1) {
    if (/\d/.test(text[caret])) seen += 1;
  }
  input.setSelectionRange(caret, caret);
}

if (number) {
  const [, expiry] = fields;
  number.addEventListener('input', () => rewrite(number, (digits) => grouped(digits.slice(0, 19))));
  expiry.addEventListener('input', () => {
    rewrite(expiry, (digits) => (digits.length > 2 ? `${digits.slice(0, 2)}/${digits.slice(2, 6)}` : digits));
  });
  for (const card of document.querySelectorAll('.cards a')) {
    card.addEventListener('click', (event) => {
      event.preventDefault();
      const { number: digits, expiry: month, cvc } = card.dataset;
      [digits, month, cvc].forEach((value, index) => { fields[index].value = value; });
      document.querySelector('button.primary').focus();
    });
  }
  document.querySelector('[aria-invalid]')?.focus();
}

for (const form of document.querySelectorAll('form')) {
  let sent = false;
  form.addEventListener('submit', (event) => {
    if (sent) {
      event.preventDefault();
      return;
    }
    sent = true;
    const button = event.submitter ?? form.querySelector('button');
    button.setAttribute('aria-disabled', 'true');
    button.textContent = form.dataset.paying;
  });
}

// A page that comes back out of the browser's memory may be old: the order may be paid by now.
window.addEventListener('pageshow', (event) => {
  if (event.persisted) window.location.reload();
});

// A shop may lead on to an address that the page's policy does not know, and the browser then stops on the way
// from the form to the shop. The order is paid: the page says so, and its link may lead anywhere.
document.addEventListener('securitypolicyviolation', (event) => {
  if (event.effectiveDirective === 'form-action') window.location.reload();
});

const countdown = document.querySelector('.countdown');
if (countdown) {
  const end = performance.now() + Number(countdown.dataset.seconds) * 1000;
  const clock = countdown.querySelector('dd');
  countdown.hidden = false;
  const tick = () => {
    const left = Math.max(0, Math.ceil((end - performance.now()) / 1000));
    const parts = [Math.floor(left / 3600), Math.floor(left / 60) % 60, left % 60];
    clock.textContent = parts.map((part) => String(part).padStart(2, '0')).join(':');
    if ('frozen' in countdown.dataset) return;
    if (left === 0) window.location.reload();
    else window.setTimeout(tick, 1000);
  };
  if (Number(countdown.dataset.seconds) > 0) tick();
}
