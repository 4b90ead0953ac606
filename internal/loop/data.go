package loop

import (
	"encoding/json"
	"strconv"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// CalledData is the data of tool.called:
// {"input":…,"pos":…,"tool":…,"toolUseId":…,"turn":…}.
func CalledData(turn, pos int, use converse.ToolUse) json.RawMessage {
	b := make([]byte, 0, len(use.Input)+len(use.Name)+len(use.ID)+64)
	b = append(append(b, `{"input":`...), use.Input...)
	b = append(b, `,"pos":`...)
	b = strconv.AppendInt(b, int64(pos), 10)
	b = append(b, `,"tool":`...)
	b = ledger.AppendString(b, use.Name)
	b = append(b, `,"toolUseId":`...)
	b = ledger.AppendString(b, use.ID)
	b = append(b, `,"turn":`...)
	return append(strconv.AppendInt(b, int64(turn), 10), '}')
}

// ReturnedData is the data of tool.returned:
// {"pos":…,"result":…,"status":"success"|"error","tool":…,"turn":…}.
// Evidence addresses and patches of such an event point into "result".
func ReturnedData(call edge.Call, r edge.Return) json.RawMessage {
	b := make([]byte, 0, len(r.Body)+len(call.Use.Name)+64)
	b = strconv.AppendInt(append(b, `{"pos":`...), int64(call.Pos), 10)
	b = append(append(b, `,"result":`...), r.Body...)
	if r.Failed {
		b = append(b, `,"status":"error","tool":`...)
	} else {
		b = append(b, `,"status":"success","tool":`...)
	}
	b = ledger.AppendString(b, call.Use.Name)
	b = append(b, `,"turn":`...)
	return append(strconv.AppendInt(b, int64(call.Turn), 10), '}')
}
