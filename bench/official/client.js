'use strict'
// The official Node client (npm rocketmq-client-nodejs) on the same rows as rocketmq_bench, for bench/rocketmq.py: words
// NAME=VALUE, then rows publish:COUNT:AT_ONCE and consume:COUNT; one line of JSON per row. Its API acks one by one. It
// logs below $HOME, and its module is found through NODE_PATH.
const fs = require('node:fs')
const { Producer, SimpleConsumer } = require('rocketmq-client-nodejs')

const RECEIVERS = 4, BATCH = 32, LEASE_MS = 15000, POLL_MS = 5000

const option = {}
const rows = []
for (const word of process.argv.slice(2)) {
  const [name, value] = word.split('=')
  if (value === undefined) rows.push(word.split(':'))
  else option[name] = value
}
const client = { endpoints: option.endpoints, sslEnabled: false }
// As large as an order event is.
const body = Buffer.from(JSON.stringify({ padding: 'x'.repeat(Number(option.body) - '{"padding":""}'.length) }))
const keys = ['019b0000-0000-7000-8000-000000000001', '1001:2001:019b0000-0000-7000-8000-000000000002', '019b0000-0000-7000-8000-000000000003']

function words (path) { return fs.readFileSync(path, 'latin1').split('\n')[0].replace(/^.*\) /, '').split(/ +/).map(Number) }
function spent () {
  const own = process.cpuUsage()
  const cpu = words('/proc/stat')
  const broker = words(`/proc/${option.broker_pid}/stat`)
  return {
    wall: performance.now() * 1000,
    ours: own.user + own.system,
    broker: (broker[11] + broker[12]) * 10000,
    machine: (cpu[1] + cpu[2] + cpu[3] + cpu[6] + cpu[7] + cpu[8]) * 10000
  }
}
function tell (row, n, from, to, more) {
  const wall = to.wall - from.wall, ours = to.ours - from.ours, broker = to.broker - from.broker
  console.log(JSON.stringify({
    row, who: 'official', messages: n, seconds: wall / 1e6, per_s: Math.round(n / wall * 1e6), cpu_us: ours / n, broker_cpu_us: broker / n,
    others: (to.machine - from.machine - ours - broker) / wall, ...more
  }))
}

let producer
async function publish (count, atOnce) {
  if (!producer) {
    producer = new Producer({ ...client, topics: [option.topic] })
    await producer.startup()
  }
  const took = []
  let left = count
  async function one () {
    while (left > 0) {
      left--
      const begun = performance.now()
      await producer.send({ topic: option.topic, tag: 'create', keys, body })
      took.push((performance.now() - begun) * 1000)
    }
  }
  const from = spent()
  await Promise.all(Array.from({ length: atOnce }, one))
  const to = spent()
  took.sort((a, b) => a - b)
  const at = share => Math.round(took[Math.floor(count * share)])
  tell('publish', count, from, to, { at_once: atOnce, p50_us: at(0.5), p99_us: at(0.99), max_us: at(1 - 1e-9) })
}

let consumer
async function consume (count) {
  if (!consumer) {
    consumer = new SimpleConsumer({ ...client, consumerGroup: option.group, subscriptions: new Map([[option.topic, '*']]), awaitDuration: POLL_MS })
    await consumer.startup()
  }
  let taken = 0, first = 0, acked = 0, from, to, receives = 0
  async function receiver () {
    while (taken < count) {
      const messages = await consumer.receive(BATCH, LEASE_MS)
      if (!messages.length) continue
      receives++
      if (!from) {
        from = spent()
        first = messages.length
      }
      taken += messages.length
      await Promise.all(messages.map(m => consumer.ack(m)))
      acked += messages.length
      if (acked >= count && !to) to = spent()
    }
  }
  // The last polls end by themselves: a cancelled one strands a message.
  await Promise.all(Array.from({ length: RECEIVERS }, receiver))
  const n = acked - first > 0 ? acked - first : acked
  tell('consume', n, from, to, { at_once: RECEIVERS, receives, acks: acked })
}

async function main () {
  for (const [kind, count, atOnce] of rows) {
    if (kind === 'publish') await publish(Number(count), Number(atOnce))
    else await consume(Number(count))
  }
  process.exit(0)
}
main().catch(e => { console.error(e); process.exit(1) })
