// Command serve runs a language model that follows a script.
//
//	go run ./acceptance/fakemodel/serve -listen 127.0.0.1:8090 script.yaml
//
// Configure its URL for a model in toolyard.yaml, with the key fake-model-key.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/toolyard/toolyard/acceptance/fakemodel"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:8090", "address to listen on")
	flag.Parse()
	if flag.NArg() != 1 {
		return errors.New("usage: serve [-listen ADDRESS] SCRIPT")
	}
	data, err := os.ReadFile(flag.Arg(0))
	if err != nil {
		return err
	}
	script, err := fakemodel.Parse(data)
	if err != nil {
		return err
	}
	server, err := fakemodel.New(fakemodel.Options{Script: script, Address: *listen})
	if err != nil {
		return err
	}
	defer server.Close()
	for _, api := range []string{"anthropic", "openai", "chat", "gemini"} {
		fmt.Fprintf(os.Stderr, "%-10s %s\n", api, server.BaseURL(api))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	<-ctx.Done()
	return nil
}
