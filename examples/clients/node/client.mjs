// A client for `client: command` (docs/ADDING_A_CLIENT.md) with kafkajs: `client.mjs produce` or `client.mjs consume`.
import readline from 'node:readline'
import { Kafka, Partitioners, logLevel } from 'kafkajs'

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n')

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const told = JSON.parse((await lines.next()).value)
const kafka = new Kafka({
  brokers: told.bootstrap_servers.split(','),
  logLevel: logLevel.ERROR,
  // stdout is for kaput alone.
  logCreator: () => ({ label, log }) => process.stderr.write(`${label} ${log.message} ${log.error ?? ''}\n`),
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 100 },
})

async function produce() {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, idempotent: told.idempotence })
  const acks = { 0: 0, 1: 1, all: -1 }[told.acks]
  await producer.connect()
  say({ ready: true })
  let waiting = []
  let ended = false
  const reading = (async () => {
    for await (const text of lines) waiting.push(JSON.parse(text))
    ended = true
  })()
  while (!ended || waiting.length > 0) {
    const batch = waiting.splice(0, 500)
    if (batch.length === 0) {
      await new Promise((resolve) => setTimeout(resolve, 5))
      continue
    }
    // kafkajs tells the first offset of each partition's part of a request; its messages follow each other.
    const place = (line) => line.partition ?? line.seq % Math.max(told.partitions, 1)
    const messages = batch.map((line) => ({ value: Buffer.from(line.payload, 'base64'), key: line.key, partition: place(line) }))
    try {
      const answers = await producer.send({ topic: told.topic, acks, messages })
      const next = new Map(answers.map((answer) => [answer.partition, Number(answer.baseOffset ?? answer.offset)]))
      for (const line of batch) {
        const partition = place(line)
        const offset = next.get(partition)
        if (Number.isFinite(offset) && offset >= 0) {
          next.set(partition, offset + 1)
          say({ seq: line.seq, outcome: 'acked', partition, offset })
        } else say({ seq: line.seq, outcome: 'acked', partition })
      }
    } catch (error) {
      // Of messages that were retried nobody knows whether an earlier try was written.
      for (const line of batch) say({ seq: line.seq, outcome: 'unknown', error: String(error.message) })
    }
  }
  await reading
  await producer.disconnect()
}

async function consume() {
  const readUncommitted = told.isolation === 'read_uncommitted'
  const consumer = kafka.consumer({ groupId: told.group, readUncommitted })
  const places = (assignment) =>
    Object.entries(assignment).flatMap(([topic, partitions]) => partitions.map((partition) => [topic, partition]))
  let owned = []
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    if (owned.length > 0) say({ revoked: owned })
    owned = places(payload.memberAssignment)
    say({ assigned: owned })
    say({ ready: true })
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (payload.restart) return
    process.stderr.write(`${payload.error}\n`)
    process.exit(1)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: told.topics, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      const { topic, partition, messages } = batch
      for (const { offset, value } of messages) {
        say({ topic, partition, offset: Number(offset), payload: value === null ? null : value.toString('base64') })
      }
      // Everything above has been said: a commit never runs ahead of it.
      const next = Number(batch.lastOffset()) + 1
      await consumer.commitOffsets([{ topic, partition, offset: String(next) }])
      say({ committed: [[topic, partition, next]] })
    },
  })
  for await (const _ of lines);
  await consumer.disconnect()
}

await (process.argv[2] === 'consume' ? consume() : produce())
