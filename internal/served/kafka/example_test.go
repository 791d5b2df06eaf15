package kafka_test

import (
	"context"
	"fmt"
	"strings"

	"blankout/internal/served"
	"blankout/internal/served/kafka"
	"blankout/stream"

	"github.com/twmb/franz-go/pkg/kfake"
)

// A learner publishes its models to a topic, and a program of yours reads the newest.
func ExampleOpener() {
	cluster, err := kfake.NewCluster(kfake.Ports(0)) // stands for your brokers
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	brokers := stream.DefaultConnectConfig()
	brokers.Brokers = cluster.ListenAddrs()
	ctx := context.Background()

	p, err := kafka.NewPublisher(ctx, kafka.PublisherConfig{ConnectConfig: brokers, Topic: "models", Create: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	if err := p.Publish(ctx, wide(7, 10, 0.5)); err != nil { // a *served.Model
		fmt.Println(err)
		return
	}

	where := "kafka://" + strings.Join(brokers.Brokers, ",") + "/models"
	m, err := served.Open(ctx, where, served.Options{Schemes: map[string]served.Opener{"kafka": kafka.Opener(brokers)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("version", m.Version)
	// Output: version 7
}
