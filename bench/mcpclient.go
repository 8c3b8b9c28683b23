package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const legacyVersion = "2025-11-25"

// mcpClient is a client on one connection that sends the same bytes repeatedly, to keep the load
// generator's overhead low.
type mcpClient struct {
	conn    net.Conn
	reader  *bufio.Reader
	path    string
	version string
	session string
	request []byte       // a call to echo
	body    bytes.Buffer // body of the last response
}

// errRefused is returned for a response that has no result: an HTTP status, an error or a failed
// result.
var errRefused = errors.New("refused")

// dial connects a client that is ready to call echo.
func (r *rival) dial(legacy bool) (*mcpClient, error) {
	c, err := r.connect(legacy)
	if err != nil {
		return nil, err
	}
	if err := c.findEcho(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// connect connects a client. In the legacy era, it opens a session.
func (r *rival) connect(legacy bool) (*mcpClient, error) {
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		return nil, err
	}
	c := &mcpClient{conn: conn, reader: bufio.NewReaderSize(conn, 16<<10), path: r.path, version: version}
	if legacy {
		c.version = legacyVersion
		err = c.initialize()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// listen opens a session's stream on a separate connection.
func (r *rival) listen(session string) (*mcpClient, error) {
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		return nil, err
	}
	c := &mcpClient{conn: conn, reader: bufio.NewReaderSize(conn, 512), path: r.path, version: legacyVersion, session: session}
	if err := c.listen(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *mcpClient) close() { _ = c.conn.Close() }

// initialize opens a session.
func (c *mcpClient) initialize() error {
	h, err := c.exchange(c.post("initialize", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+legacyVersion+`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`))
	if err != nil {
		return err
	}
	c.session = h.session
	_, err = c.exchange(c.post("notifications/initialized", "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return err
}

// findEcho finds the tool echo by the end of its name, because gateways rename tools.
func (c *mcpClient) findEcho() error {
	if _, err := c.exchange(c.post("tools/list", "", c.message("tools/list", ""))); err != nil {
		return err
	}
	data := c.body.Bytes()
	if _, event, ok := bytes.Cut(data, []byte("data: ")); ok {
		data, _, _ = bytes.Cut(event, []byte("\n"))
	}
	var list struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("tools/list: %w: %s", err, data)
	}
	for _, tool := range list.Result.Tools {
		if strings.HasSuffix(tool.Name, "echo") {
			c.request = c.post("tools/call", tool.Name, c.message("tools/call", `"name":"`+tool.Name+`","arguments":{"text":"hello world"}`))
			return nil
		}
	}
	return errors.New("the tool echo is missing")
}

// message returns a request in the client's version of MCP.
func (c *mcpClient) message(method, params string) string {
	if c.version == version {
		params = strings.TrimSuffix(meta+","+params, ",")
	}
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
}

// post returns an HTTP request as bytes.
func (c *mcpClient) post(method, name, body string) []byte {
	h := c.head("POST", "application/json, text/event-stream") + "Content-Type: application/json\r\n"
	if c.version == version {
		h += "Mcp-Method: " + method + "\r\n"
		if name != "" {
			h += "Mcp-Name: " + name + "\r\n"
		}
	}
	return []byte(h + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

func (c *mcpClient) head(method, accept string) string {
	h := method + " " + c.path + " HTTP/1.1\r\nHost: " + c.conn.RemoteAddr().String() + "\r\nAccept: " + accept + "\r\nMcp-Protocol-Version: " + c.version + "\r\n"
	if c.session != "" {
		h += "Mcp-Session-Id: " + c.session + "\r\n"
	}
	return h
}

// exchange sends a request and reads the response into body.
func (c *mcpClient) exchange(request []byte) (h head, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return h, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return h, err
	}
	if h, err = readHead(c.reader); err != nil {
		return h, err
	}
	c.body.Reset()
	if _, err := h.readBody(c.reader, &c.body); err != nil {
		return h, err
	}
	if h.status != 200 && h.status != 202 {
		return h, fmt.Errorf("%w: status %d: %s", errRefused, h.status, c.body.Bytes()[:min(300, c.body.Len())])
	}
	return h, nil
}

// call calls echo and returns the duration.
func (c *mcpClient) call() (took time.Duration, err error) {
	began := time.Now()
	if _, err := c.exchange(c.request); err != nil {
		return 0, err
	}
	took = time.Since(began)
	if body := c.body.Bytes(); !bytes.Contains(body, []byte("hello world")) || bytes.Contains(body, []byte(`"isError":true`)) {
		return 0, fmt.Errorf("%w: %s", errRefused, body[:min(300, len(body))])
	}
	return took, nil
}

// listen requests the session's stream on this connection. Some gateways respond only when they
// have something to send.
func (c *mcpClient) listen() error {
	_, err := c.conn.Write([]byte(c.head("GET", "text/event-stream") + "\r\n"))
	return err
}

// listens reports whether the stream was not refused.
func (c *mcpClient) listens() bool {
	if c.conn.SetReadDeadline(time.Now().Add(time.Millisecond)) != nil {
		return false
	}
	h, err := readHead(c.reader)
	return errors.Is(err, os.ErrDeadlineExceeded) || err == nil && h.status == 200
}
