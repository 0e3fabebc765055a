"""How the page at `/` looks: on a phone as on a desk, in the light as in the dark."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5a6675;--line:#d8dee6;--page:#f6f7f9;
--card:#fff;--link:#0b57d0;--good:#11703b;--bad:#b3261e;--open:#8a5a00}
@media(prefers-color-scheme:dark){:root{--ink:#e3e8ef;--soft:#9aa7b7;--line:#333d4b;--page:#11161d;
--card:#1a212b;--link:#8ab4f8;--good:#5bd68b;--bad:#ff8a80;--open:#f2c14e}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:60rem;background:var(--page);color:var(--ink);
font:1rem/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.25rem;margin:0}
h2{font-size:1.15rem;margin:0}
h3{font-size:.8rem;margin:1.25rem 0 .25rem;color:var(--soft);text-transform:uppercase;
letter-spacing:.05em}
header p{margin:.25rem 0 .5rem;color:var(--soft)}
nav{display:flex;flex-wrap:wrap;gap:.25rem 1rem}
a{color:var(--link)}
section{margin:1rem 0;padding:1rem;background:var(--card);border:1px solid var(--line);
border-radius:.5rem}
section p{margin:.25rem 0 0}
h2,strong,dt,dd{unicode-bidi:isolate}
dl{display:grid;grid-template-columns:13rem 1fr;gap:.3rem 1rem;margin:.5rem 0 0}
dt{color:var(--soft)}
dd{margin:0;min-width:0}
svg{display:block;width:100%;max-width:30rem;height:2rem;border-bottom:1px solid var(--line)}
path{fill:none;stroke-width:3}
.good{color:var(--good);stroke:var(--good)}
.bad{color:var(--bad);stroke:var(--bad)}
.open{color:var(--open);stroke:var(--open)}
@media(max-width:40rem){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.5rem}}
"""

STYLE_SHA256 = "bkdsi4R8xyRtBTG0jBRt6Sq2dux51APuPjZ6edxHnTw="
"""By which the page's policy lets this one style in and no other; a test holds the two together."""
