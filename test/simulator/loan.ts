/** A loan application, the schemas of its answers, and how the tests of the simulator ask for one. */

export function application(score: number, income = 72_000, loan = 72_000): string {
  const money = (value: number) => `$${value.toLocaleString('en-US')}`;
  return [
    'Please judge this application for a personal loan.',
    '',
    'Applicant: Robin Example, 34 years old',
    `Credit score: ${score} ("as reported")`,
    `Income, before tax: ${money(income)} a year`,
    `Sum asked for: ${money(loan)} over 60 months`,
    '',
    'Answer with one JSON object, such as {"approval_decision": "deny", ...}.',
  ].join('\n');
}

const reason = { type: 'string', minLength: 1, maxLength: 400, pattern: '\\S' };

function objectOf(properties: { [name: string]: unknown }) {
  return { type: 'object', properties, required: Object.keys(properties), additionalProperties: false };
}

const head = {
  approval_decision: { type: 'string', enum: ['approve', 'deny'] },
  approval_type: { enum: ['STANDARD_TERMS', 'SUBOPTIMAL_TERMS', 'MANUAL_REVIEW', 'DENIAL'] },
  interest_rate: { type: 'number', minimum: 3, maximum: 25 },
  confidence_probability: { type: 'integer', minimum: 0, maximum: 100 },
  confidence_level: { enum: ['low', 'medium', 'high'] },
};

export const agentSchema = objectOf({
  agent_name: { const: 'Risk Manager' },
  loan_type: { const: 'personal_loan' },
  ...head,
  reasoning: objectOf({
    approval_decision_reason: reason,
    approval_type_reason: reason,
    interest_rate_reason: reason,
    confidence_reason: reason,
  }),
});

const weight = { type: 'number', minimum: 0, maximum: 1 };
export const WEIGHTS = [
  'risk_manager_weight',
  'regulatory_weight',
  'data_science_weight',
  'consumer_advocate_weight',
];

export const synthesisSchema = objectOf({
  ...head,
  agent_influence: objectOf({
    ...Object.fromEntries(WEIGHTS.map(name => [name, weight])),
    primary_influence: { enum: ['risk_manager', 'regulatory', 'data_science', 'consumer_advocate'] },
  }),
  reasoning: objectOf({ synthesis_rationale: reason, weight_justification: reason, risk_assessment: reason }),
});

export interface Question {
  score?: number;
  user?: string;
  system?: string;
  schema?: unknown;
  /** makes two questions two requests */
  turn?: number;
  more?: { [field: string]: unknown };
}

export function bodyOf({
  score = 680,
  user,
  system,
  schema = agentSchema,
  turn = 0,
  more = {},
}: Question = {}): string {
  return JSON.stringify({
    model: 'simulated-3b',
    messages: [
      { role: 'system', content: system ?? 'You are the Risk Manager of a lender.' },
      { role: 'user', content: user ?? application(score) },
    ],
    temperature: 0.7,
    max_tokens: 500,
    seed: turn,
    ...(schema === null
      ? {}
      : { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema } } }),
    ...more,
  });
}

export interface Completion {
  choices: { message: { content: string }; finish_reason: string }[];
  usage: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details: { cached_tokens: number };
  };
}

export async function post(url: string, body: string, path = '/chat/completions'): Promise<Response> {
  return fetch(url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
}

export async function completion(url: string, body: string): Promise<Completion> {
  return (await post(url, body)).json() as Promise<Completion>;
}

export async function contentOf(url: string, body: string): Promise<string> {
  return (await completion(url, body)).choices[0]!.message.content;
}
