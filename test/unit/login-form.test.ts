/** Forms of login pages: which one is taken, what is sent with it, and where it must not go. */
import assert from 'node:assert/strict';
import test from 'node:test';
import {
  filledLogin,
  type Login,
  loginFault,
  loginSchema,
  valueFault,
} from '../../shared/login.ts';
import { isLoggedIn, loginRequest, loginRules } from '../../slave/login-form.ts';
import { RuleSet } from '../../slave/rules/rule-set.ts';

const given = { url: 'https://a.example/login', fields: { user: 'me' }, until: 'a.logout' };

function sent(html: string, part: Partial<Login> = {}, pageUrl = given.url) {
  const login = loginSchema.parse({ ...given, ...part });
  const set = RuleSet.compile(loginRules(login));
  assert.ok(set instanceof RuleSet, JSON.stringify(set));
  const at = { url: pageUrl, finalUrl: pageUrl, depth: 0, status: 200, type: 'text/html' };
  const result = set.evaluate({ ...at, headers: {}, text: html }, 1 << 20);
  set.close();
  assert.deepEqual(result.failures, []);
  const made = loginRequest(login, result, pageUrl);
  if (typeof made === 'string') return { why: made, isIn: isLoggedIn(result) };
  const body = made.request === undefined ? undefined : Buffer.from(made.request.body).toString();
  return { url: made.url, body, isIn: isLoggedIn(result) };
}

const form = (inner: string, attributes = 'method=post') => `<form ${attributes}>${inner}</form>`;
const user = '<input name=user>';

test('login-form: hidden fields, boxes, lists and texts go along as they stand', () => {
  const inner = `${user}<input type=hidden name=csrf value=" t&1 ">
    <input type=checkbox name=keep checked><input type=checkbox name=no>
    <input type=radio name=r value=1><input type=radio name=r value=2 checked>
    <select name=s><option value="">x<option selected>  two  </select>
    <select name=q><option value=first><option></select>
    <textarea name=t>a b</textarea><input name=off disabled value=1><input type=file name=f>
    <fieldset disabled><input name=off2 value=1></fieldset><input value=nameless>
    <button name=go value=1>Go</button><button name=other value=2>No</button>
    <input type=reset name=z>`;
  assert.deepEqual(sent(form(inner, 'method=POST action="/in?x=1#y"')), {
    url: 'https://a.example/in?x=1',
    body: 'user=me&csrf=+t%261+&keep=on&r=2&s=two&q=first&t=a+b&go=1',
    isIn: false,
  });
});

test('login-form: given fields replace those of the form, and come behind if it lacks them', () => {
  const fields = { user: 'ü', pin: '1 2' };
  const named = { fields, form: 'form' };
  assert.equal(
    sent(form('<input name=user value=x><input name=user>'), named).body,
    'user=%C3%BC&pin=1+2',
  );
  // Without a selector it must be a form that has them.
  assert.match(
    sent(form(user), { fields }).why ?? '',
    /no form of the page has the fields user, pin/,
  );
});

test('login-form: the first form with all fields, or the one that is named', () => {
  const two = `${form('<input name=q>', 'action=/search')}${form(user, 'method=post action=/in')}`;
  assert.equal(sent(two).url, 'https://a.example/in');
  const named = sent(two, { form: { css: 'form[action="/search"]' } });
  assert.deepEqual([named.url, named.body], ['https://a.example/search?q=&user=me', undefined]);
  assert.match(sent('<p>no</p>').why ?? '', /no such form/);
});

test('login-form: it goes to no other host, and never from TLS to none', () => {
  const to = (action: string) => sent(form(user, `method=post action="${action}"`));
  assert.match(to('https://evil.example/').why ?? '', /another host, evil\.example/);
  assert.match(to('http://a.example/in').why ?? '', /without TLS/);
  assert.equal(to('https://www.a.example/in').url, 'https://www.a.example/in');
  assert.match(to('javascript:go()').why ?? '', /no http or https URL/);
  const moved = sent(form(user), {}, 'https://b.example/login');
  assert.match(moved.why ?? '', /another host, b\.example/);
  // Nothing is below a name without a dot.
  assert.match(sent(form(user), { url: 'https://example/' }).why ?? '', /another host/);
});

test('login-form: the mark of success', () => {
  assert.equal(sent('<a class=logout>x</a>').isIn, true);
  assert.equal(sent('Log out', { until: { regex: 'Log ?out' } }).isIn, true);
  assert.equal(sent('<img class=me>', { until: '//img[@class="me"]' }).isIn, true);
  assert.equal(sent('<p>no</p>').isIn, false);
});

test('login: values come from variables, none of the master itself', () => {
  const login = loginSchema.parse({
    ...given,
    fields: { user: 'me', password: '$PASS', price: '$$PASS', pin: 12, cost: '$5' },
  });
  const all = { user: 'me', password: 's3', price: '$PASS', pin: '12', cost: '$5' };
  assert.deepEqual(filledLogin(login, { PASS: 's3' }).fields, all);
  assert.equal(loginFault(login, { PASS: 's3' }), undefined);
  assert.match(loginFault(login, {}) ?? '', /the variable PASS is not set/);
  const own = { ...login, fields: { password: '$ORB_AUTHKEY' } };
  assert.match(loginFault(own, { ORB_AUTHKEY: 'k' }) ?? '', /ORB_/);
  assert.equal(filledLogin(own, { ORB_AUTHKEY: 'k' }).fields['password'], '$ORB_AUTHKEY');
  assert.match(valueFault('$ORB_AUTHKEY') ?? '', /must not name/);
});

test('login: what is wrong with one is said', () => {
  const wrong: [unknown, RegExp][] = [
    [{ ...given, url: 'a.example' }, /URL, in full/],
    [{ ...given, fields: {} }, /must have a field/],
    [{ ...given, fields: 'me' }, /must be the fields/],
    [{ ...given, fields: { a: 'x'.repeat(5_000) } }, /at most 4096/],
    [{ ...given, until: undefined }, /selector/],
    [{ ...given, until: { css: 'a', xpath: '//a' } }, /leave all but one out/],
    [{ ...given, next: 1 }, /unknown key: next/],
    ['https://a.example/', /must have url, fields and until/],
  ];
  for (const [value, message] of wrong) {
    assert.match(loginSchema.safeParse(value).error?.issues[0]?.message ?? 'fine', message);
  }
});

test('login-form: of a list what a browser would send', () => {
  const inner = `${user}<select name=a><option disabled selected value=0>choose<option value=1></select>
    <select name=b><option disabled value=0><option value=1></select>
    <select name=c><option selected value=1><option selected value=2></select>
    <select name=d multiple><option value=1></select>
    <select name=e multiple><option selected value=1><option selected value=2></select>`;
  assert.equal(sent(form(inner)).body, 'user=me&b=1&c=2&e=1&e=2');
});
