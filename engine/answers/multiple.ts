/**
 * `multipleOf` by the decimals that people write: 0.29 is a multiple of 0.01, although the quotient of the two doubles
 * is 28.999999999999996. ajv looks at that quotient, or at its distance from a whole number, which is wrong for large ones.
 */
import { _, type Ajv, type CodeKeywordDefinition, str } from 'ajv';

const KEYWORD: CodeKeywordDefinition = {
  keyword: 'multipleOf',
  type: 'number',
  schemaType: 'number',
  error: {
    message: ({ schemaCode }) => str`must be multiple of ${schemaCode}`,
    params: ({ schemaCode }) => _`{multipleOf: ${schemaCode}}`,
  },
  code(cxt) {
    const { gen, data, schemaCode } = cxt;
    const multiple = gen.scopeValue('func', { ref: isMultipleOf });
    cxt.fail(_`!${multiple}(${data}, ${schemaCode})`);
  },
};

/** Has `ajv` judge `multipleOf` by decimals; before it compiles. */
export function useDecimals(ajv: Ajv): void {
  ajv.removeKeyword(KEYWORD.keyword as string);
  ajv.addKeyword({ ...KEYWORD });
}

/** Whether the shortest decimals of two doubles are a multiple and its step. */
export function isMultipleOf(value: number, step: number): boolean {
  if (!Number.isFinite(value) || !(step > 0)) return false;
  if (Number.isSafeInteger(value) && Number.isSafeInteger(step)) return value % step === 0;
  const [digits, power] = decimalOf(value);
  const [stepDigits, stepPower] = decimalOf(step);
  // digits × 10^power: with the smaller power for both, the digits are whole numbers to divide
  const least = Math.min(power, stepPower);
  return (digits * tenTo(power - least)) % (stepDigits * tenTo(stepPower - least)) === 0n;
}

/** A double as whole digits and a power of ten, of the shortest decimal that is read as it. */
function decimalOf(number: number): [digits: bigint, power: number] {
  const [mantissa = '', exponent = '0'] = number.toExponential().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  return [BigInt(whole + fraction), Number(exponent) - fraction.length];
}

function tenTo(power: number): bigint {
  return 10n ** BigInt(power);
}
