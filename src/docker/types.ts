import type { Artifact } from '../image/types.js';

/**
 * The part of a Docker client that the adapter uses: `new Docker()` of dockerode 4 and 5 fits. Structural, so that
 * nobody needs dockerode's types, and so that the client, its address and its TLS settings stay the embedder's own.
 */
export interface DockerLike {
  readonly modem: {
    // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the client declares it so
    dial(options: any, done: (error: any, data: any) => void): void;
  };
}

/** An image that a Docker engine has. */
export interface DockerImage extends Artifact {
  /** `os/arch[/variant]`, as the image's own configuration states it. */
  readonly platform: string;
}
