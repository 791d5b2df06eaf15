// Command outside is a program of somebody else, which predicts with a model in its own process.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"blankout/client"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address string) error {
	m, err := client.Open(context.Background(), address, client.Options{})
	if err != nil {
		return err
	}
	var p client.Prediction
	p, err = m.PredictValue(map[string]any{"word": "fine", "x": 1}, 2)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(p)
}
