"""How the page looks: on a screen, on a phone, on paper."""

STYLE = """
:root { color-scheme: light; --ink: #1d2430; --soft: #5b6573; --line: #d9dee6; --tint: #f5f7fa; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 64rem; color: var(--ink);
  background: #fff; font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 .6rem; padding-top: .6rem;
  border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 46rem; }
.soft, figcaption { color: var(--soft); font-size: .92rem; }
nav { margin: 1rem 0 0; font-size: .92rem; display: flex; flex-wrap: wrap; gap: .25rem 1rem; }
a { color: #1c5fa8; }
.verdict { margin: 1.25rem 0; padding: .9rem 1.1rem; border-left: .4rem solid; border-radius: .3rem;
  max-width: none; }
.verdict strong { display: block; font-size: 1.1rem; }
.good { background: #e9f6ee; border-color: #23814a; }
.bad { background: #fdf0e6; border-color: #c25a10; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr));
  gap: .1rem 1.5rem; margin: .75rem 0; }
dl > div { border-bottom: 1px solid var(--line); padding: .35rem 0; min-width: 0; }
dt { color: var(--soft); font-size: .85rem; }
dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: .75rem 0; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .9rem .3rem 0; vertical-align: top; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
thead th { color: var(--soft); font-weight: 600; }
.number { text-align: right; }
.text { text-align: left; }
tbody th { font-weight: 400; }
td.text:last-child { white-space: normal; min-width: 11rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr));
  gap: 1.25rem; margin: 1rem 0; align-items: start; }
figure { margin: 0; min-width: 0; }
img { width: 100%; height: auto; display: block; }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: .3rem; padding: .7rem;
  overflow-x: auto; font-size: .85rem; line-height: 1.45; }
@media (max-width: 34rem) {
  body { padding: 1rem .9rem 3rem; }
  h1 { font-size: 1.5rem; }
  th, td { padding-right: .6rem; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
}
@page { margin: 16mm 14mm; }
@media print {
  html { font-size: 10pt; }
  body { max-width: none; padding: 0; }
  nav { display: none; }
  h2, section > p { break-after: avoid; }
  h2 { margin-top: 1.4rem; }
  p, figure, tr, pre, .verdict, dl { break-inside: avoid; }
  .figures { grid-template-columns: 1fr 1fr; gap: .8rem; }
  .wide, pre { overflow: visible; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  th, td { white-space: normal; }
  .good, .bad { print-color-adjust: exact; }
}
"""
