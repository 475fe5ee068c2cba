package example

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"kaput.dev/lab"
)

func TestNoAcknowledgedOrderIsLostWhenTheLeaderDies(t *testing.T) {
	cluster := lab.Start(t, "--brokers", "3")
	cluster.CreateTopic(t, "orders", 1, map[string]any{"min.insync.replicas": 2})
	producer, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(cluster.BootstrapServers, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	killed := cluster.Inject(t, "kill", "leader-of orders/0", nil)
	var acked []string
	for n := range 1000 {
		record := &kgo.Record{Topic: "orders", Key: fmt.Appendf(nil, "order-%d", n)}
		producer.Produce(context.Background(), record, func(sent *kgo.Record, err error) {
			if err == nil { // one goroutine calls all of these
				acked = append(acked, string(sent.Key))
			}
		})
	}
	if err := producer.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	killed.Heal(t)
	found := cluster.Count(t, "orders", acked)
	if found.Acked != 1000 || found.Lost != 0 {
		t.Fatalf("%+v", found)
	}
}
