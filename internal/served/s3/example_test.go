package s3_test

import (
	"context"
	"fmt"
	"os"

	"blankout/internal/event"
	"blankout/internal/s3test"
	"blankout/internal/served"
	"blankout/internal/served/s3"
)

// A learner publishes its models to an object of a store, and a program of yours reads the
// newest.
func ExampleOpener() {
	store := s3test.Start() // stands for your store
	defer store.Close()
	os.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	os.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
	c := s3.Config{Endpoint: event.Address(store.URL), Region: s3test.Region}
	ctx := context.Background()

	p, err := s3.NewPublisher(ctx, c, "s3://models/fraud.blankout")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Publish(ctx, trained(7, 0.5)); err != nil { // a *served.Model
		fmt.Println(err)
		return
	}

	m, err := served.Open(ctx, "s3://models/fraud.blankout", served.Options{Schemes: map[string]served.Opener{"s3": s3.Opener(c)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("version", m.Version)
	// Output: version 7
}
