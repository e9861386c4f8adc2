import { Agent, get } from 'node:http';

export interface ProbeOptions {
  /** Between the starts of two requests, in ms, whatever the earlier ones do. Default: 20 */
  readonly everyMs?: number;
  /** After how many ms a request has failed. Default: 2000 */
  readonly timeoutMs?: number;
}

/** One request. Times are in ms, on the clock of `performance.now()`. */
export interface Sample {
  readonly start: number;
  readonly latency: number;
  readonly ok: boolean;
  /** The body of a good answer, without the newline: the version of the app. */
  readonly version?: string;
  /** Why it failed: `ECONNREFUSED`, `503`, `timeout`, … */
  readonly failure?: string;
}

export interface ProbeReport {
  /** In the order of their starts. */
  readonly samples: readonly Sample[];
  readonly failed: number;
  /**
   * From the start of the first failed request to the start of the first good one after it. Several such times add up,
   * so that a service which comes and goes is not taken for one that was away once; Infinity when it did not come back.
   */
  readonly outageMs: number;
  readonly longestLatencyMs: number;
  /** The versions that answered, in the order of their first answers. */
  readonly versions: readonly string[];
}

export interface Probe {
  /** What is known already; requests in flight are missing. */
  report(): ProbeReport;
  /** Resolves when a request that starts from now on is answered by that version (default: by any). */
  answeredBy(version?: string): Promise<Sample>;
  /** Starts no more requests and waits for those in flight. */
  stop(): Promise<ProbeReport>;
}

/**
 * Asks a URL at a fixed rate, without waiting for answers: a server that hangs is asked as often as one that answers,
 * so that a standstill counts with all the requests that it costs. Every request has a connection of its own.
 */
export function probe(url: string, { everyMs = 20, timeoutMs = 2000 }: ProbeOptions = {}): Probe {
  const samples: Sample[] = [];
  const watchers = new Set<(sample: Sample) => void>();
  const inFlight = new Set<Promise<void>>();
  const ask = (): void => {
    const request = sampleOf(url, timeoutMs).then((sample) => {
      samples.push(sample);
      for (const watcher of watchers) watcher(sample);
    });
    inFlight.add(request);
    void request.then(() => inFlight.delete(request));
  };
  ask();
  const timer = setInterval(ask, everyMs);
  return {
    report: () => summary(samples),
    answeredBy(version) {
      const from = performance.now();
      return new Promise((resolve) => {
        const watcher = (sample: Sample): void => {
          if (!sample.ok || sample.start < from || (version !== undefined && sample.version !== version)) return;
          watchers.delete(watcher);
          resolve(sample);
        };
        watchers.add(watcher);
      });
    },
    async stop() {
      clearInterval(timer);
      await Promise.all(inFlight);
      return summary(samples);
    },
  };
}

export function summary(unordered: readonly Sample[]): ProbeReport {
  const samples = unordered.toSorted((a, b) => a.start - b.start);
  return {
    samples,
    failed: samples.filter(({ ok }) => !ok).length,
    outageMs: outage(samples),
    longestLatencyMs: Math.max(0, ...samples.map(({ latency }) => latency)),
    versions: [...new Set(samples.flatMap(({ version }) => (version === undefined ? [] : [version])))],
  };
}

function outage(samples: readonly Sample[]): number {
  let total = 0;
  let since: number | undefined;
  for (const { ok, start } of samples) {
    if (!ok) since ??= start;
    else if (since !== undefined) {
      total += start - since;
      since = undefined;
    }
  }
  return since === undefined ? total : Infinity;
}

function sampleOf(url: string, timeoutMs: number): Promise<Sample> {
  const start = performance.now();
  return new Promise((resolve) => {
    const settle = (outcome: { ok: boolean; version?: string; failure?: string }): void => {
      clearTimeout(timer);
      request.destroy();
      resolve({ start, latency: performance.now() - start, ...outcome });
    };
    const request = get(url, { agent: new Agent({ keepAlive: false }) }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (body += chunk));
      response.on('error', (error) => settle({ ok: false, failure: codeOf(error) }));
      response.on('end', () => {
        const { statusCode = 0 } = response;
        if (statusCode === 200) settle({ ok: true, version: body.trim() });
        else settle({ ok: false, failure: String(statusCode) });
      });
    });
    const timer = setTimeout(() => settle({ ok: false, failure: 'timeout' }), timeoutMs);
    request.on('error', (error) => settle({ ok: false, failure: codeOf(error) }));
  });
}

function codeOf(error: Error): string {
  return 'code' in error ? String(error.code) : error.message;
}
