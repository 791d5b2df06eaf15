// Command broker runs only the embedded Kafka broker, with the given topics, for tests in other languages. A topic has
// one partition unless it says another number:
//
//	go run ./tools/broker events:2 models
//
// It writes the broker's address to standard output and exits when its standard input is closed.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"blankout/stream"
)

func main() {
	topics := map[string]int32{}
	for _, arg := range os.Args[1:] {
		name, partitions, several := strings.Cut(arg, ":")
		n, err := strconv.ParseInt(partitions, 10, 32)
		if !several {
			n, err = 1, nil
		}
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "broker: topic %q: want NAME or NAME:PARTITIONS\n", arg)
			os.Exit(2)
		}
		topics[name] = int32(n)
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
