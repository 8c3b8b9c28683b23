package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/serve/offer"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// abridge shortens a result that is longer than the gate shows. It stores the result and sends the
// client its beginning, its end and the URI of the whole result. It drops structured content,
// because part of it would be invalid. A client that listed the tool with an output schema requires
// structured content, so such results are not shortened unless the tool was called through a
// meta-tool. Errors, and results that cannot be stored, are not shortened either.
func (r *request) abridge(ctx context.Context, c *toolyard.Call, res *toolyard.Result) *toolyard.Result {
	show := r.view.Gate.Show
	if show == 0 || r.method != "tools/call" || res.IsError || r.meta == "" && len(c.Tool.Output) > 0 {
		return res
	}
	text, others, long := offer.LongText(res, show)
	if !long {
		return res
	}
	s := r.gate.server
	id, now := strings.ToLower(rand.Text()), s.opts.Now()
	if err := s.opts.Results.PutResult(ctx, id, c.Caller.Account, c.Caller.ID, text, now, now.Add(offer.ResultLifetime)); err != nil {
		s.opts.Log.Warn("could not store a long result; sending it in full", "call", c.ID, "bytes", len(text), "error", err)
		return res
	}
	link := toolyard.Link{URI: offer.ResultURI(id), Name: "result", MIMEType: "text/plain", Description: fmt.Sprintf("The full result, %d bytes.", len(text))}
	content := append([]toolyard.Content{toolyard.Text(offer.Abridge(text, id, show))}, others...)
	return &toolyard.Result{Content: append(content, link), Meta: metaOf(res)}
}

// metaOf returns a result's _meta. If another server produced the result, it omits the keys that
// are not passed on.
func metaOf(res *toolyard.Result) map[string]json.RawMessage {
	if res.Raw() == nil {
		return res.Meta
	}
	meta := maps.Collect(strictjson.Members(strictjson.Member(res.Raw(), "_meta")))
	for _, key := range envelopeMeta {
		delete(meta, key)
	}
	return meta
}

// resolveResult prepares the response to resources/read for a stored result.
func (r *request) resolveResult() *toolyard.Error {
	part, err := offer.ParseResultURI(r.name)
	if err != nil {
		return err
	}
	r.answer = func(ctx context.Context) (*toolyard.Result, error) {
		o := &r.gate.server.opts
		p, err := part.Read(ctx, o.Results, r.Caller, o.Now())
		if err != nil {
			return nil, err
		}
		b := jsonobject.AppendString([]byte(`{"contents":[{"uri":`), r.name)
		b = jsonobject.AppendString(append(b, `,"mimeType":"text/plain","text":`...), p.Text)
		return &toolyard.Result{Structured: fmt.Appendf(b, `,"_meta":{"dev.toolyard/next":%d,"dev.toolyard/size":%d}}]}`, p.Next, p.Size)}, nil
	}
	return nil
}
