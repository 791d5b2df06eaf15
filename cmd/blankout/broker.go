package main

// The command broker runs the embedded broker for tutorials and tests.

import (
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"blankout/stream"
)

func (p *program) broker() *cobra.Command {
	var address string
	c := &cobra.Command{
		Use:   "broker",
		Short: "Run a small Kafka broker in memory, for tutorials and tests",
		Long: `broker runs a one-node broker with Kafka's protocol until SIGINT or SIGTERM. It is for
tutorials and tests: it listens only on the loopback interface, requires no password and
keeps its topics in memory. It prints its address on standard output.`,
		Example: "  blankout broker --address 127.0.0.1:0",
		RunE: func(c *cobra.Command, _ []string) error {
			port, err := loopbackPort(address)
			if err != nil {
				return usageError{fmt.Errorf("--address %s: %w", address, err)}
			}
			broker, err := stream.StartEmbedded(stream.EmbeddedConfig{Port: port})
			if err != nil {
				return fmt.Errorf("%s: %w (choose another with --address; port 0 takes a free port)", address, err)
			}
			defer broker.Close()
			at := broker.Brokers()[0]
			p.note(fmt.Sprintf("a Kafka broker for tutorials and tests runs at %s until Ctrl-C; its topics are in memory and end with it", at))
			fmt.Fprintln(p.stdout, at)
			<-c.Context().Done()
			return nil
		},
	}
	c.Flags().StringVar(&address, "address", "127.0.0.1:9092", "`HOST:PORT` on the loopback interface")
	return c
}

// loopbackPort returns the port of an address. It returns an error if the address is not a loopback address.
func loopbackPort(address string) (int, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	if host != "localhost" && host != "127.0.0.1" {
		return 0, fmt.Errorf("host %q: want 127.0.0.1 or localhost, because the broker requires no password", host)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("port %q: want 0 to 65535", text)
	}
	return int(port), nil
}
