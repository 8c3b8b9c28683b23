package toolyard

import (
	"encoding/json"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// mustMarshal encodes values that always have a JSON form.
func mustMarshal(v any) json.RawMessage {
	raw, err := jsonobject.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
