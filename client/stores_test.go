package client_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"

	"blankout/app/served/kafka"
	"blankout/app/served/s3"
	"blankout/client"
	"blankout/internal/event"
	"blankout/internal/s3test"
	"blankout/stream"
)

// A learner publishes its models to a topic, and your program reads the newest model.
func ExampleOpen_kafka() {
	cluster, err := kfake.NewCluster(kfake.Ports(0)) // takes the role of your brokers
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
	if err := p.Publish(ctx, opinion(7)); err != nil {
		fmt.Println(err)
		return
	}

	// Your own program contains the code from here on.
	m, err := client.Open(ctx, "kafka://"+strings.Join(brokers.Brokers, ",")+"/models", client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("version", m.Version())
	// Output: version 7
}

// A learner publishes its models to an object in a store, and your program reads the newest model.
func ExampleOpen_s3() {
	store := s3test.Start() // takes the role of your store
	defer store.Close()
	os.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	os.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
	ctx := context.Background()
	p, err := s3.NewPublisher(ctx, s3.Config{Endpoint: event.Address(store.URL), Region: s3test.Region}, "s3://models/fraud.blankout")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Publish(ctx, opinion(7)); err != nil {
		fmt.Println(err)
		return
	}

	// Your own program contains the code from here on.
	m, err := client.Open(ctx, "s3://models/fraud.blankout", client.Options{S3: client.S3{Endpoint: store.URL, Region: s3test.Region}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("version", m.Version())
	// Output: version 7
}
