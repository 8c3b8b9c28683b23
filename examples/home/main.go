// Command home simulates a small house that implements the Home Assistant API, so that you can try
// docs/HOME.md without a real one. It prints the variables to export.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/toolyard/toolyard/acceptance/fakehome"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8123", "address to listen on")
	entities := flag.Int("entities", 0, "sensors to add")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	home := fakehome.New(fakehome.Options{Address: *listen, Entities: *entities})
	defer home.Close()
	fmt.Fprintf(os.Stdout, "export HOME_URL=%s HOME_TOKEN=%s\n", home.URL, fakehome.Token)
	<-ctx.Done()
}
