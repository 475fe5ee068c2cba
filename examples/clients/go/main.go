// A client for `client: command` (docs/ADDING_A_CLIENT.md) with franz-go: `client produce` or `client consume`.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

type told struct {
	Servers   string   `json:"bootstrap_servers"`
	Topic     string   `json:"topic"`
	Acks      string   `json:"acks"`
	Group     string   `json:"group"`
	Topics    []string `json:"topics"`
	Isolation string   `json:"isolation"`
}

type message struct {
	Seq       int64  `json:"seq"`
	Key       string `json:"key"`
	Payload   string `json:"payload"`
	Partition *int32 `json:"partition"`
}

var (
	saying sync.Mutex
	out    = json.NewEncoder(os.Stdout)
)

// say prints one line to kaput, at once.
func say(line map[string]any) {
	saying.Lock()
	defer saying.Unlock()
	if err := out.Encode(line); err != nil {
		log.Fatal(err)
	}
}

func main() {
	in := bufio.NewReader(os.Stdin)
	first, err := in.ReadBytes('\n')
	if err != nil {
		log.Fatal(err)
	}
	var t told
	if err := json.Unmarshal(first, &t); err != nil {
		log.Fatal(err)
	}
	if len(os.Args) > 1 && os.Args[1] == "consume" {
		consume(t, in)
	} else {
		produce(t, in)
	}
}

func produce(t told, in *bufio.Reader) {
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}[t.Acks]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(t.Servers, ",")...),
		kgo.RequiredAcks(acks),
		kgo.DisableIdempotentWrite(),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // kafkajs reads no snappy, the default
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			return func(r *kgo.Record, n int) int { return int(r.Partition) % n }
		})),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.Ping(context.Background()); err != nil {
		log.Fatal(err)
	}
	say(map[string]any{"ready": true})
	lines := json.NewDecoder(in)
	for {
		var m message
		if err := lines.Decode(&m); err == io.EOF {
			break
		} else if err != nil {
			log.Fatal(err)
		}
		payload, err := base64.StdEncoding.DecodeString(m.Payload)
		if err != nil {
			log.Fatal(err)
		}
		record := &kgo.Record{Topic: t.Topic, Key: []byte(m.Key), Value: payload, Partition: int32(m.Seq % (1 << 30))}
		if m.Partition != nil {
			record.Partition = *m.Partition
		}
		seq := m.Seq
		client.Produce(context.Background(), record, func(r *kgo.Record, err error) {
			if err != nil {
				// Of a message that was retried nobody knows whether an earlier try was written.
				say(map[string]any{"seq": seq, "outcome": "unknown", "error": err.Error()})
			} else {
				say(map[string]any{"seq": seq, "outcome": "acked", "partition": r.Partition, "offset": r.Offset})
			}
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// places turns the client's map of topics into lists of [topic, partition].
func places(kind string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
		list := [][]any{}
		for topic, partitions := range changed {
			for _, partition := range partitions {
				list = append(list, []any{topic, partition})
			}
		}
		say(map[string]any{kind: list})
		if kind == "assigned" {
			say(map[string]any{"ready": true})
		}
	}
}

func consume(t told, in *bufio.Reader) {
	isolation := map[string]kgo.IsolationLevel{
		"read_committed": kgo.ReadCommitted(), "read_uncommitted": kgo.ReadUncommitted(),
	}[t.Isolation]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(t.Servers, ",")...),
		kgo.ConsumerGroup(t.Group),
		kgo.ConsumeTopics(t.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(isolation),
		kgo.OnPartitionsAssigned(places("assigned")),
		kgo.OnPartitionsRevoked(places("revoked")),
		kgo.OnPartitionsLost(places("lost")),
	)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 500)
		next := map[string]map[int32]int64{}
		fetches.EachRecord(func(r *kgo.Record) {
			payload := base64.StdEncoding.EncodeToString(r.Value)
			say(map[string]any{"topic": r.Topic, "partition": r.Partition, "offset": r.Offset, "payload": payload})
			if next[r.Topic] == nil {
				next[r.Topic] = map[int32]int64{}
			}
			next[r.Topic][r.Partition] = r.Offset + 1
		})
		if len(next) == 0 {
			continue
		}
		// Everything above has been said: a commit never runs ahead of it.
		if err := client.CommitRecords(context.Background(), fetches.Records()...); err == nil {
			list := [][]any{}
			for topic, partitions := range next {
				for partition, offset := range partitions {
					list = append(list, []any{topic, partition, offset})
				}
			}
			say(map[string]any{"committed": list})
		}
	}
	client.Close()
}
