/** CPU ms of this process since `start`. Other processes of a busy machine do not count. */
export function cpuMsSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1_000;
}
