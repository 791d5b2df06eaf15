// Command broker runs only the embedded Kafka broker, with the given topics, for tests in other languages:
//
//	go run ./tools/broker events models
//
// It writes the broker's address to standard output and exits when its standard input is closed.
package main

import (
	"fmt"
	"io"
	"os"

	"blankout/stream"
)

func main() {
	topics := map[string]int32{}
	for _, name := range os.Args[1:] {
		topics[name] = 1
	}
	broker, err := stream.StartEmbedded(stream.EmbeddedConfig{Topics: topics})
	if err != nil {
		fmt.Fprintln(os.Stderr, "broker:", err)
		os.Exit(1)
	}
	defer broker.Close()
	fmt.Println(broker.Brokers()[0])
	_, _ = io.Copy(io.Discard, os.Stdin)
}
