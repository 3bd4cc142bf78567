/**
 * fw simulate: a vLLM server without a GPU, for trying pipelines and for tests. The answers are simulated.
 *
 *   fw simulate --port 8101 --seed 7 --latency 40ms --faults default
 *
 * Prints one line of JSON with its URL, so that a script can take a free port (`--port 0`), and serves until SIGTERM or SIGINT.
 */
import { EXIT, usageError } from '../../engine/flow/failure.ts';
import { type Simulator, startSimulator } from '../../engine/simulator/simulator.ts';
import { command } from '../command.ts';

export default command({
  name: 'simulate',
  summary: 'Serve simulated answers as vLLM would, without a GPU.',
  examples: [
    'fw simulate --port 8101 --seed 7 --latency 40ms',
    'fw simulate --port 0 --faults 429=0.1,null=0.02,truncated=0.01',
  ],
  options: {
    port: {
      type: 'integer',
      minimum: 0,
      maximum: 65535,
      default: 8101,
      description: 'Port; 0 takes a free one.',
    },
    host: { type: 'string', default: '127.0.0.1', description: 'Address to listen on.' },
    seed: { type: 'integer', default: 7, description: 'The same seed and request give the same answer.' },
    latency: { type: 'string', default: '40ms', description: 'Time for an answer, or a range: 20ms-80ms.' },
    faults: {
      type: 'string',
      default: 'none',
      description:
        'none, default, or <kind>=<share>,… of null, zero, escape, fence, chatty, truncated, 429, 500, drop, hang, all.',
    },
    model: { type: 'string', default: 'simulated-3b', description: 'Name of the model that is served.' },
    'max-model-len': {
      type: 'integer',
      minimum: 16,
      default: 8192,
      description: 'Context length in tokens.',
    },
  },

  async run({ port, host, seed, latency, faults, model, 'max-model-len': maxModelLength }, positionals) {
    if (positionals.length > 0) throw usageError(`expected options only, found "${positionals[0]}"`);
    const stopped = new Promise<void>(stop => {
      process.once('SIGTERM', stop);
      process.once('SIGINT', stop);
    });
    let simulator: Simulator;
    try {
      simulator = await startSimulator({ port, host, seed, latency, faults, model, maxModelLength });
    } catch (error) {
      throw usageErrorFrom(error, host, port);
    }
    const { url } = simulator;
    process.stderr.write(
      `fw simulate: ${url} answers as ${model}. The answers are simulated; no model is behind them.\n`,
    );
    process.stdout.write(`${JSON.stringify({ url, model, seed, latency, faults, simulated: true })}\n`);
    await stopped;
    await simulator.close();
    return EXIT.ok;
  },
});

function usageErrorFrom(error: unknown, host: string, port: number): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof RangeError && code === undefined) return usageError(message);
  if (code === 'EADDRINUSE')
    return usageError(
      `expected port ${port} of ${host} to be free, found it in use; choose another, or 0 for any`,
    );
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return usageError(
      `expected an address to listen on, found ${host}:${port} (${code}); choose another --host or --port`,
    );
  }
  return error;
}
