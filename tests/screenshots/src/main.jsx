// The page that a browser opens: one dashboard in its grid, as of a time that the address gives.
// Annotations, links and the choice of variables are not drawn.

import '@fontsource/inter/400.css';
import '@fontsource/inter/500.css';
import 'uplot/dist/uPlot.min.css';
import './page.css';

import { createTheme, dateTime, ThemeContext } from '@grafana/data';
import { GlobalStyles, PanelChrome } from '@grafana/ui';
import { Component } from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';

import { panelData } from './data.js';
import { isEmpty, Visualisation } from './panels.jsx';
import { chosenValues, substitute } from './variables.js';

const COLUMNS = 24;
const ROW_PIXELS = 30;
const GAP = 8;
const WEIGHTS = [400, 500];

class Guard extends Component {
  state = {};

  static getDerivedStateFromError(error) {
    return { error };
  }

  componentDidCatch(error) {
    report(this.props.panel, { error: String(error) });
  }

  render() {
    return this.state.error ? <div className="no-data">{String(this.state.error)}</div> : this.props.children;
  }
}

function Dashboard({ dashboard, panels, context }) {
  const column = (innerWidth - GAP) / COLUMNS;
  const end = Math.max(...panels.map(({ panel: { gridPos } }) => gridPos.y + gridPos.h));
  return (
    <ThemeContext.Provider value={context.theme}>
      <GlobalStyles hackNoBackdropBlur />
      <h1>{dashboard.title}</h1>
      <main style={{ height: end * (ROW_PIXELS + GAP) + GAP }}>
        {panels.map(({ panel, data }) => (
          <Place key={panel.id ?? panel.title} panel={panel} column={column}>
            {panel.type === 'row' ? (
              <h2>{panel.title}</h2>
            ) : (
              <Panel panel={panel} data={data} context={context} column={column} />
            )}
          </Place>
        ))}
      </main>
    </ThemeContext.Provider>
  );
}

function Place({ panel: { gridPos, title }, column, children }) {
  const style = {
    left: GAP + gridPos.x * column,
    top: gridPos.y * (ROW_PIXELS + GAP),
    width: gridPos.w * column - GAP,
    height: gridPos.h * (ROW_PIXELS + GAP) - GAP,
  };
  return (
    <div className="place" data-title={title} style={style}>
      {children}
    </div>
  );
}

function Panel({ panel, data, context, column }) {
  return (
    <PanelChrome
      title={substitute(panel.title, context.values)}
      description={panel.description}
      width={panel.gridPos.w * column - GAP}
      height={panel.gridPos.h * (ROW_PIXELS + GAP) - GAP}
    >
      {(width, height) => (
        <Guard panel={panel}>
          {data.error ? (
            <div className="no-data">{data.error}</div>
          ) : (
            <Visualisation panel={panel} width={width} height={height} {...data} {...context} />
          )}
        </Guard>
      )}
    </PanelChrome>
  );
}

// What the browser's driver reads.
window.panels = {};

function report(panel, its) {
  window.panels[panel.title] = { type: panel.type, ...window.panels[panel.title], ...its };
}

async function main() {
  const { dashboard: path, prometheus, from, to, ...given } = Object.fromEntries(
    new URLSearchParams(location.search)
  );
  const dashboard = await (await fetch(path)).json();
  const theme = createTheme({ colors: { mode: 'dark' } });
  const context = {
    prometheus,
    from: Number(from),
    to: Number(to),
    scrapeSeconds: 1,
    minStep: 2,
    theme,
    timeRange: range(Number(from), Number(to)),
    replaceVariables: (text) => substitute(text, context.values),
  };
  context.values = await chosenValues(dashboard.templating.list, given, context);
  const panels = await Promise.all(
    dashboard.panels.map(async (panel) => ({
      panel,
      data: panel.type === 'row' ? {} : await panelData(panel, context),
    }))
  );
  for (const { panel, data } of panels) {
    if (panel.type !== 'row') {
      report(panel, { isEmpty: isEmpty(data.frames), error: data.error });
    }
  }
  // Before anything is measured.
  await Promise.all(WEIGHTS.map((weight) => document.fonts.load(`${weight} 14px Inter`)));
  const root = createRoot(document.getElementById('root'));
  flushSync(() => root.render(<Dashboard dashboard={dashboard} panels={panels} context={context} />));
  // The components measure what they have drawn, and draw once more.
  await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
}

function range(from, to) {
  const its = { from: dateTime(from * 1000), to: dateTime(to * 1000) };
  return { ...its, raw: its };
}

await main();
window.isDrawn = true;
