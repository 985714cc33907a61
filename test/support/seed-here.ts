/** The context of a fetch from a host on loopback that the operator named as a seed. */
export const seedHere = { open: true, blocks: ['127.0.0.0/8', '::1/128'] } as const;
