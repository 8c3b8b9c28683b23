package toolyard

import (
	"encoding/json"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// Content is one item of a result: an MCP content object.
type Content interface {
	// AppendJSON appends the object's JSON encoding to b.
	AppendJSON(b []byte) []byte
}

// Text is plain text.
type Text string

// Image is an image.
type Image struct {
	Data     []byte
	MIMEType string
}

// Audio is an audio clip.
type Audio struct {
	Data     []byte
	MIMEType string
}

// Link is a link to a resource.
type Link struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
}

// EmbeddedResource is the content of a resource: text, or binary data if Blob is not nil.
type EmbeddedResource struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType,omitempty"`
	Text     string `json:"text"`
	Blob     []byte `json:"-"`
}

// rawContent is the JSON encoding of a content object, which is sent unchanged.
type rawContent json.RawMessage

// AppendJSON implements [Content].
func (t Text) AppendJSON(b []byte) []byte {
	b = append(b, `{"type":"text","text":`...)
	return append(jsonobject.AppendString(b, string(t)), '}')
}

// AppendJSON implements [Content].
func (i Image) AppendJSON(b []byte) []byte { return appendBlob(b, "image", i.Data, i.MIMEType) }

// AppendJSON implements [Content].
func (a Audio) AppendJSON(b []byte) []byte { return appendBlob(b, "audio", a.Data, a.MIMEType) }

// AppendJSON implements [Content].
func (l Link) AppendJSON(b []byte) []byte {
	b = append(b, `{"type":"resource_link",`...)
	return append(b, mustMarshal(l)[1:]...)
}

// AppendJSON implements [Content].
func (r EmbeddedResource) AppendJSON(b []byte) []byte {
	b = append(b, `{"type":"resource","resource":`...)
	if r.Blob == nil {
		b = append(b, mustMarshal(r)...)
	} else {
		b = append(b, mustMarshal(struct {
			URI      string `json:"uri"`
			MIMEType string `json:"mimeType,omitempty"`
			Blob     []byte `json:"blob"`
		}{r.URI, r.MIMEType, r.Blob})...)
	}
	return append(b, '}')
}

// AppendJSON implements [Content].
func (c rawContent) AppendJSON(b []byte) []byte { return append(b, c...) }

func appendBlob(b []byte, kind string, data []byte, mime string) []byte {
	b = append(b, `{"type":"`+kind+`",`...)
	return append(b, mustMarshal(struct {
		Data     []byte `json:"data"`
		MIMEType string `json:"mimeType"`
	}{data, mime})[1:]...)
}
