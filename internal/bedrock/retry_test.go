package bedrock

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"investigator/internal/bedrock/bedrocktest"
)

func TestRetryAfter(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"X-Amz-Retry-After", "1500", 1500 * time.Millisecond}, {"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT", 0}, {"X-Amz-Retry-After", "-5", 0}, {"Other", "9", 0},
		{"Retry-After", "99999999999999999999", 0},
	} {
		h := http.Header{}
		h.Set(c.name, c.value)
		if got := retryAfter(h); got != c.want {
			t.Errorf("%s: %s gives %s, expected %s", c.name, c.value, got, c.want)
		}
	}
	s := bedrocktest.New(t, bedrocktest.Options{Script: hello, Faults: []bedrocktest.Fault{{Name: "throttle-retry-after", RetryAfter: time.Hour}}})
	o := options(s.URL, true)
	var pauses []time.Duration
	o.Watch.Wait = func(w Wait) { pauses = append(pauses, w.Pause) }
	do(t, newEdge(t, o), modelCall(t, `{}`))
	if len(pauses) != 7 || slices.Min(pauses) < maxRetryAfter || slices.Max(pauses) > maxRetryAfter {
		t.Errorf("pauses %v, expected seven of %s", pauses, maxRetryAfter)
	}
}

// TestLateModelsAreThrottles: a model that is not ready is waited for in seconds,
// as for a quota, and not in the 50 ms that suit a broken connection.
func TestLateModelsAreThrottles(t *testing.T) {
	longest := func(name string) (pause time.Duration) {
		for range 100 {
			d, err := newRetryer(8).RetryDelay(3, &attemptError{name: name})
			if err != nil {
				t.Fatal(err)
			}
			pause = max(pause, d)
		}
		return pause
	}
	for name, slow := range map[string]bool{"ModelNotReadyException": true, "ModelTimeoutException": true, "ThrottlingException": true, connectionFailed: false} {
		if d := longest(name); (d > time.Second) != slow {
			t.Errorf("%s waits up to %s", name, d)
		}
	}
}

// TestAttemptsOfManyCalls: calls share no quota, so trouble in one does not end
// another (the SDK's own quota ends after some 100 retries).
func TestAttemptsOfManyCalls(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{Script: hello, Faults: []bedrocktest.Fault{{Name: "500"}}})
	e := newEdge(t, options(s.URL, true))
	for range 30 {
		if r := do(t, e, modelCall(t, `{}`)); len(r.Wire.Attempts) != again {
			t.Fatalf("%d attempts", len(r.Wire.Attempts))
		}
	}
	t.Setenv("AWS_MAX_ATTEMPTS", "3")
	if r := do(t, newEdge(t, options(s.URL, true)), modelCall(t, `{}`)); len(r.Wire.Attempts) != again {
		t.Errorf("AWS_MAX_ATTEMPTS=3 made %d attempts of ours", len(r.Wire.Attempts))
	}
}
