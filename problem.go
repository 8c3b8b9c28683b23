package toolyard

import "fmt"

// Problem is something that needs attention: a file that does not compile, a server that
// cannot be reached, two tools with the same name. A problem is reported but does not stop anything else.
type Problem struct {
	Source  string `json:"source,omitempty"` // name of the source
	Subject string `json:"subject"`          // gate, toolset, file or server
	Tool    string `json:"tool,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	Frame   string `json:"frame,omitempty"` // source line with a marker below the column

	// Warning is true if everything works, but probably not as intended.
	Warning bool `json:"warning,omitempty"`
}

func (p Problem) String() string {
	s := p.Message
	if p.Subject != "" {
		s = p.Subject + ": " + s
	}
	switch {
	case p.File != "" && p.Line > 0:
		s = fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, s)
	case p.File != "":
		s = p.File + ": " + s
	}
	return s
}
