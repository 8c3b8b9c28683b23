// Command server is a small CRM for the examples in docs/CONTEXT.md.
//
//	GET /customers/ID                    {"data": {"name": …, "tier": …}}
//	GET /regions/ID                      {"region": …}
//
// Requests need the token: Authorization: Bearer demo.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

const token = "demo"

// customer is a customer record.
type customer struct {
	Name   string `json:"name"`
	Tier   string `json:"tier"`
	Region string `json:"-"`
}

// customers are the records by ID. On the command line, the caller's ID is local.
var customers = map[string]customer{
	"local":  {"Ada Lovelace", "gold", "EU"},
	"C-1017": {"Grace Hopper", "silver", "US"},
	"C-1018": {"Broken Record", "platinum", "EU"},
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8787", "address to listen on")
	flag.Parse()
	if err := serve(*listen); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(address string) error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "export CRM_URL=http://%s CRM_TOKEN=%s\n", l.Addr(), token)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /customers/{id}", answer(func(c customer) any { return map[string]any{"data": c} }))
	mux.HandleFunc("GET /regions/{id}", answer(func(c customer) any { return map[string]any{"region": c.Region} }))
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return s.Serve(l)
}

// answer serves part of a customer's record.
func answer(part func(customer) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, ok := customers[r.PathValue("id")]
		switch {
		case r.Header.Get("Authorization") != "Bearer "+token:
			http.Error(w, "unauthorized", http.StatusUnauthorized)
		case !ok:
			http.Error(w, "unknown customer", http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(part(c)); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
}
