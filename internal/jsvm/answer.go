package jsvm

import (
	"encoding/json"
	"errors"
	"fmt"
)

// open decodes a run's answer.
func (m *Module) open(body []byte) (json.RawMessage, error) {
	if len(body) == 0 {
		return nil, errors.New("the worker sent an empty reply")
	}
	end, body := body[0], body[1:]
	switch end {
	case endAnswer:
		return m.openAnswer(body)
	case endException:
		e := &Exception{}
		if err := json.Unmarshal(body, e); err != nil {
			return nil, err
		}
		return nil, m.mapped(e)
	}
	reasons := map[byte]Reason{endDeadline: DeadlineExceeded, endCPU: CPUExceeded, endUnending: NeverSettles, endCanceled: Canceled, endFull: WorkerFull}
	if reason, ok := reasons[end]; ok {
		return nil, &Stopped{reason}
	}
	return nil, errors.New(string(body))
}

func (m *Module) openAnswer(body []byte) (json.RawMessage, error) {
	var answer struct {
		Value json.RawMessage `json:"value"`
		Error *Exception      `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("the worker's reply: %w", err)
	}
	if answer.Error != nil {
		return nil, m.mapped(answer.Error)
	}
	return answer.Value, nil
}
