package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/upstream"
	"github.com/toolyard/toolyard/yard"
)

// serveProxy serves a plain reverse proxy.
func serveProxy(l net.Listener, ready func(), server string) error {
	u, err := url.Parse("http://" + server)
	if err != nil {
		return err
	}
	p := httputil.NewSingleHostReverseProxy(u)
	p.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	ready()
	return http.Serve(l, p)
}

// serveGateway serves Toolyard with another server's tools and all policies.
func serveGateway(l net.Listener, ready func(), server string) error {
	s, err := upstream.New(upstream.Options{ID: "up", URL: "http://" + server + "/mcp", Connections: 64})
	if err != nil {
		return err
	}
	return serveYard(l, ready, yard.Options{Sources: map[string]toolyard.Source{"up": s}})
}

// measureUpstreams compares calls to a server directly, through a reverse proxy and through
// Toolyard.
func measureUpstreams(ctx context.Context, turn time.Duration, turns int) error {
	server, err := start(ctx, "sdk", 0)
	if err != nil {
		return err
	}
	defer server.stop()
	contenders := []*contender{server}
	for _, name := range []string{"proxy", "gateway"} {
		c, err := startWith(ctx, name, nil, "-serve", name, "-upstream", server.addr)
		if err != nil {
			return err
		}
		defer c.stop()
		contenders = append(contenders, c)
	}
	gateway := request("tools/call", "mcp_up__echo", strings.Replace(callBody, `"name":"echo"`, `"name":"mcp_up__echo"`, 1))
	requests := [][]byte{request("tools/call", "echo", callBody), request("tools/call", "echo", callBody), gateway}
	latency, err := compareLatency(contenders, requests, turn, turns)
	if err != nil {
		return err
	}
	s, err := compareEach(contenders, requests, 8, turn, turns)
	if err != nil {
		return err
	}
	fmt.Printf("One call to a tool of a bare go-sdk server, MCP %s\n\n", version)
	fmt.Printf("| path | p50, 1 connection | calls/s, 8 connections | CPU per call added by the path |\n|---|---|---|---|\n")
	for i, c := range contenders {
		cpu := s[i].cpu.Round(time.Microsecond).String()
		if i == 0 {
			cpu = "–"
		}
		fmt.Printf("| %s | %v | %.0f | %s |\n", titles[c.name], latency[i].Round(time.Microsecond), s[i].perSecond, cpu)
	}
	fmt.Printf("\nToolyard adds %v to the p50 of a call (goal: at most 300µs; the proxy adds %v), keeps %.2f of the\n",
		(latency[2] - latency[0]).Round(time.Microsecond), (latency[1] - latency[0]).Round(time.Microsecond), s[2].perSecond/s[0].perSecond)
	fmt.Printf("calls per second (goal: at least 0.85; the proxy keeps %.2f), and uses %.2f times the CPU of the proxy (goal: at most 1.5).\n\n",
		s[1].perSecond/s[0].perSecond, float64(s[2].cpu)/float64(s[1].cpu))
	return nil
}

// compareEach is like compare, with a separate request for each contender.
func compareEach(contenders []*contender, requests [][]byte, connections int, turn time.Duration, turns int) ([]sample, error) {
	all := make([][]sample, len(contenders))
	for t := range turns + 1 {
		for i, c := range contenders {
			s, err := c.load(requests[i], connections, turn)
			if err != nil {
				return nil, err
			}
			if t > 0 { // the first turn is a warm-up
				all[i] = append(all[i], s)
			}
		}
	}
	return medians(all), nil
}

// compareLatency returns the median duration of calls on one connection, measured in turns.
func compareLatency(contenders []*contender, requests [][]byte, turn time.Duration, turns int) ([]time.Duration, error) {
	all := make([][]time.Duration, len(contenders))
	for range turns {
		for i, c := range contenders {
			took, err := latency(c.addr, requests[i], turn/2)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			all[i] = append(all[i], took...)
		}
	}
	middles := make([]time.Duration, len(contenders))
	for i, took := range all {
		slices.Sort(took)
		middles[i] = took[len(took)/2]
	}
	return middles, nil
}

func latency(addr string, req []byte, d time.Duration) (took []time.Duration, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for until := time.Now().Add(d); time.Now().Before(until); {
		start := time.Now()
		if _, err := conn.Write(req); err != nil {
			return nil, err
		}
		if _, err := readAnswer(r); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}
