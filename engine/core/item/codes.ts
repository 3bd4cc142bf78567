/** What can happen to an item. The text is what the docs and `fw explain` say; messages add the particulars. */
export const CODES = {
  // reading lines
  'not-json': 'The line is not JSON.',
  'not-an-object': 'The line is JSON, but not an object.',
  'not-utf8': 'The line is not UTF-8.',
  'line-too-long': 'The line is longer than --max-line.',
  'too-deep': 'The line nests deeper than 512 levels.',
  'not-an-item':
    'A field of the item has the wrong type, or an item to ask about has no id, or no prompt, request or steps.',
  'value-not-kept':
    'Rewriting the line would change a value: a number that no double can hold, or a duplicate key.',
  'input-incomplete': 'The stage before this one ended early; the rest of its lines is missing.',
  // ingest
  'not-a-request': 'The line of a batch file is not a request: it needs custom_id, method, url and body.',
  'ragged-row': 'The row has more or fewer fields than the header.',
  'header-again': 'The row repeats the header.',
  'row-mismatch': 'The row does not fit the JSON Schema of rows (--schema).',
  'bad-quotes': 'A quoted field of the row is broken.',
  'duplicate-id': 'An earlier row has the same id.',
  'empty-prompt': 'The row gives an empty prompt.',
  'empty-id': 'The row gives an empty id.',
  'other-prompt': 'Another line has the same id and another prompt.',
  'wrong-row': 'The result names a row of the source that does not match it.',
  'bad-messages': 'The messages are not a list of chat messages, or refer to a file that cannot be read.',
  'template-failed': 'The template could not be rendered for this row.',
  // asking
  'unexpected-input':
    'The columns of the item do not fit what the agents folder expects (`expects` in folder.yaml).',
  'no-valid-answer': 'No attempt gave an answer that fits the schema.',
  'zero-confidence': 'Every attempt at the decision answered with a confidence of zero or null.',
  'prompt-too-long': 'The prompt does not fit into the context length of the model.',
  'bad-request': 'The request cannot be sent as it is written: its method, its URL, or `stream`.',
  'no-such-model': 'No endpoint serves the model that the request names.',
  'no-such-path': 'The server does not have the path that the request names.',
  'no-answer': 'The server replied without an answer: an empty reply, no choices, no text.',
  'call-refused': 'The server refused the request; asking again would not help.',
  'answer-too-long': 'The answer to the request is longer than --max-body.',
  'call-failed': 'No endpoint answered, after every retry.',
  'call-quarantined':
    'Several servers broke the connection during this call, the last one while it had no other call.',
  'call-crossed': 'Every try got the answer to another call, as the ids in the replies show.',
  'call-timeout': 'No answer came in time, on any try.',
  'id-not-utf8': 'The id contains half of a surrogate pair, which UTF-8 cannot encode.',
  'steps-out-of-order': 'The steps of the item do not follow its ordering.',
  interrupted: 'The run was stopped before this item was finished.',
  'worker-lost': 'This line was given to workers three times, and none returned it.',
  'no-row': 'The item lacks the row number of its source, which a legacy result needs.',
  'no-steps': 'The item lacks the answer of an agent of its ordering.',
  'no-decision': 'The item has no decision to convert.',
  'no-response': 'The item has no answer of `fw request` to export.',
  // integrity
  'no-json-found': 'There is no JSON object in the answer.',
  'empty-answer': 'The answer has no text outside of its reasoning, or the reasoning has no end.',
  'repeats-itself': 'The answer ends in a loop: the same text again and again.',
  'several-answers': 'The answer contains several different objects, and nothing says which one is meant.',
  'not-the-answer':
    'The JSON is part of a sentence, an example, a quotation or code, or the text around it says that it is not the answer.',
  'text-after': 'Text follows the answer, which the agent does not allow (text_after: refuse).',
  'beyond-its-turn': 'The model continued after the end of its turn, with a question that nobody asked.',
  'model-refused': 'The server says that the model refused to answer (message.refusal).',
  truncated: 'The answer was cut off (finish_reason length).',
  'null-value': 'A value is null where the schema forbids null.',
  'schema-mismatch': 'The value does not fit the schema.',
  'unknown-agent': 'A step names an agent that the agents folder does not have.',
  // verification
  'sentinel-text': "A reason contains the text of an error instead of a model's.",
  'placeholder-text': 'An answer contains a placeholder from the example in its prompt.',
  'not-accepted': 'The rung of the item or result is not among those accepted (--accept).',
  'not-strict': 'The legacy document breaks a rule of strict verification.',
} as const;
export type Code = keyof typeof CODES;
