/**
 * The dashboard deploy/grafana/fw.json: one for runs with --metrics and for fw serve; rows whose metrics a process does not
 * have stay empty. The file is written by
 *   FW_UPDATE=1 npx vitest run test/deploy/watching.test.ts
 * What vLLM says of itself is on vLLM's own dashboards: here is what fw sees.
 */
import { type Panel, ROWS } from './rows.ts';

/** Of the 24 columns of Grafana's grid. */
const WIDTH = 8;
const HEIGHT = 8;
// biome-ignore lint/suspicious/noTemplateCurlyInString: Grafana fills it in
const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };

/** Rows and panels, in the order and at the places in which Grafana shows them. */
function panels(): object[] {
  let id = 0;
  let y = 0;
  return ROWS.flatMap(row => {
    const head = {
      id: ++id,
      type: 'row',
      title: row.title,
      collapsed: false,
      panels: [],
      gridPos: { x: 0, y, w: 24, h: 1 },
    };
    const top = y + 1;
    const own = row.panels.map((panel, at) => {
      const place = { x: (at % 3) * WIDTH, y: top + Math.floor(at / 3) * HEIGHT, w: WIDTH, h: HEIGHT };
      return { id: ++id, gridPos: place, ...shown(panel) };
    });
    y = top + Math.ceil(row.panels.length / 3) * HEIGHT;
    return [head, ...own];
  });
}

function shown({ title, about, unit, queries, kind = 'timeseries' }: Panel) {
  return {
    type: kind,
    title,
    description: about,
    datasource: DATASOURCE,
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: queries.map(([expr, legendFormat], at) => ({
      refId: String.fromCharCode(65 + at),
      datasource: DATASOURCE,
      expr: expr.replaceAll('$where', 'job=~"$job", instance=~"$instance"'),
      legendFormat,
    })),
  };
}

const label = (name: string, query: string) => ({
  name,
  type: 'query',
  datasource: DATASOURCE,
  query: { query, refId: name },
  refresh: 2,
  includeAll: true,
  multi: true,
  current: { text: ['All'], value: ['$__all'] },
});

/** As Grafana imports it. */
export function dashboard() {
  return {
    uid: 'fw',
    title: 'fw',
    description:
      'Runs of fw with --metrics, and fw serve. Made of deploy/grafana/dashboard.ts: change it there.',
    tags: ['fw'],
    schemaVersion: 39,
    editable: true,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', type: 'datasource', query: 'prometheus' },
        label('job', 'label_values(fw_endpoint_up, job)'),
        label('instance', 'label_values(fw_endpoint_up{job=~"$job"}, instance)'),
      ],
    },
    annotations: { list: [] },
    links: [
      {
        title: 'vLLM',
        type: 'dashboards',
        tags: ['vllm'],
        asDropdown: true,
        icon: 'external link',
        includeVars: false,
        keepTime: true,
        targetBlank: true,
        tooltip: 'The dashboards that vLLM has of itself',
      },
    ],
    panels: panels(),
  };
}
