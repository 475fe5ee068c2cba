// Package lab gives a test a real Kafka cluster that it can break: `kaput serve` in a process of its own.
//
//	cluster := lab.Start(t, "--brokers", "3")
//	cluster.CreateTopic(t, "orders", 1, nil)
//	killed := cluster.Inject(t, "kill", "leader-of orders/0", nil)
//	...
//	killed.Heal(t)
//
// The cluster ends with the test, and with this process, however that ends.
package lab

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// Lab is a running cluster. Its methods may be called from several goroutines; requests are answered in turn.
type Lab struct {
	BootstrapServers string // HOST:PORT of every broker, separated by commas
	Brokers          []int

	lock     sync.Mutex
	requests io.WriteCloser
	answers  *bufio.Reader
	id       int
}

// Fault is an active fault. Proof says what shows that it took effect.
type Fault struct {
	ID    string `json:"id"`
	Proof string `json:"proof"`
	lab   *Lab
}

// Count is what a fresh reader finds of messages that were acknowledged to a producer of yours.
type Count struct {
	Acked             int      `json:"acked"`
	Stored            int      `json:"stored"`
	Lost              int      `json:"lost"`
	Duplicates        int      `json:"duplicates"`
	LostExamples      []string `json:"lost_examples"`
	DuplicateExamples []string `json:"duplicate_examples"`
}

// Error is kaput's own sentence. Kind: usage, fault (not confirmed), or lab (nothing to judge).
type Error struct{ Text, Kind string }

func (e *Error) Error() string { return e.Text }

// Start starts a cluster with the options of `kaput serve`; it ends with the test. The program is KAPUT, or kaput.
func Start(t testing.TB, options ...string) *Lab {
	t.Helper()
	program := os.Getenv("KAPUT")
	if program == "" {
		program = "kaput"
	}
	command := exec.Command(program, append([]string{"serve"}, options...)...)
	command.Stderr = os.Stderr
	requests, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("%s cannot be started: pip install kaput, or set KAPUT (%v)", program, err)
	}
	t.Cleanup(func() {
		requests.Close()
		_ = command.Wait()
	})
	lab := &Lab{requests: requests, answers: bufio.NewReader(answers)}
	var first struct {
		Ready struct {
			BootstrapServers string `json:"bootstrap_servers"`
			Brokers          []int  `json:"brokers"`
		} `json:"ready"`
	}
	if err := lab.read(&first); err != nil {
		t.Fatal(err)
	}
	lab.BootstrapServers, lab.Brokers = first.Ready.BootstrapServers, first.Ready.Brokers
	return lab
}

// CreateTopic returns when every partition has a leader and its full ISR.
func (l *Lab) CreateTopic(t testing.TB, name string, partitions int, config map[string]any) {
	t.Helper()
	l.must(t, "create_topic", map[string]any{"name": name, "partitions": partitions, "config": config}, nil)
}

// Inject injects a fault, confirmed to have taken effect.
func (l *Lab) Inject(t testing.TB, fault, target string, options map[string]any) *Fault {
	t.Helper()
	given := map[string]any{"fault": fault, "target": target}
	for key, value := range options {
		given[key] = value
	}
	injected := &Fault{lab: l}
	l.must(t, "inject", given, injected)
	return injected
}

// Heal ends the fault and waits for every broker.
func (f *Fault) Heal(t testing.TB) {
	t.Helper()
	f.lab.must(t, "heal", map[string]any{"fault": f.ID}, nil)
}

// Count reads a topic and compares it with the keys of the messages that were acknowledged.
func (l *Lab) Count(t testing.TB, topic string, ackedKeys []string) Count {
	t.Helper()
	var found Count
	l.must(t, "count", map[string]any{"topic": topic, "acked": ackedKeys}, &found)
	return found
}

// Call makes any request of docs/OTHER_LANGUAGES.md. The error is an *Error where kaput has answered.
func (l *Lab) Call(request string, arguments map[string]any, result any) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.id++
	line := map[string]any{"do": request, "id": l.id}
	for key, value := range arguments {
		line[key] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if _, err := l.requests.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("kaput has ended; its last words are on stderr: %w", err)
	}
	var answer struct {
		Result      json.RawMessage `json:"result"`
		Error, Kind string
	}
	if err := l.read(&answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return &Error{answer.Error, answer.Kind}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

func (l *Lab) must(t testing.TB, request string, arguments map[string]any, result any) {
	t.Helper()
	if err := l.Call(request, arguments, result); err != nil {
		t.Fatalf("%s: %v", request, err)
	}
}

func (l *Lab) read(into any) error {
	line, err := l.answers.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("kaput has ended; its last words are on stderr: %w", err)
	}
	return json.Unmarshal(line, into)
}
