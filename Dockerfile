# One image for both programs: `node master.js …` and `node slave.js …`.
# docker build -t orbweaver . && docker run orbweaver node slave.js --help

FROM node:24-trixie-slim AS build
WORKDIR /build
# The packages are a layer of their own, kept until the lock file changes; `prepare` would want
# the sources, so the build is called by itself.
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY tsconfig.json ./
COPY scripts scripts
COPY shared shared
COPY master master
COPY slave slave
COPY library library
COPY selftest selftest
COPY test test
# The native store, and what is optional elsewhere: nothing can be installed in a container that is
# read only. Its Node has SQLite of its own, and it has no browser.
RUN npm run build && node scripts/copy-package.mjs lmdb @mozilla/readability linkedom \
  postgres mysql2 @redis/client mongodb hyparquet-writer sharp /runtime/node_modules

FROM node:24-trixie-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /build/package.json /build/master.js /build/slave.js /build/selftest.js ./
COPY --from=build /build/dist/start ./dist/start
COPY --from=build /runtime/node_modules ./node_modules
# Volumes that are made anew take over the owner and mode of these folders.
RUN install -d -o node -g node -m 0700 /authkey /data && install -d -o node -g node /out
USER node
EXPOSE 6666
CMD ["node", "master.js"]
