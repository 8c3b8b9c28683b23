package toolyard

import (
	"encoding/json"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// mustMarshal encodes values whose encoding cannot fail.
func mustMarshal(v any) json.RawMessage {
	raw, err := jsonobject.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
