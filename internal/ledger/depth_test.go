package ledger

import (
	"encoding/json"
	"strings"
	"testing"
)

// What Canon accepts, encoding/json must be able to read back, at the very
// limit of nesting too.
func TestCanonNestsAsDeepAsEncodingJSON(t *testing.T) {
	for depth := maxDepth - 1; depth <= maxDepth+1; depth++ {
		for _, inner := range []string{"", "1"} {
			doc := []byte(strings.Repeat("[", depth) + inner + strings.Repeat("]", depth))
			if _, err := Canon(doc); (err == nil) != json.Valid(doc) {
				t.Errorf("depth %d around %q: error %v, but encoding/json says valid=%v", depth, inner, err, json.Valid(doc))
			}
		}
	}
}
