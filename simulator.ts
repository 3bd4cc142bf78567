/**
 * fairwatch/simulator: a simulated vLLM server for tests of your own. Its answers fit the schema of the request and depend
 * on its text and on the seed; no model is behind them.
 */
export { readPreset } from './products/simulator/presets.ts';
export {
  type Simulator,
  type SimulatorOptions,
  startSimulator,
} from './products/simulator/simulator.ts';
