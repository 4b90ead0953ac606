package recorder_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"
)

// TestAnswerOf is the interaction without its request, for every event of a run.
func TestAnswerOf(t *testing.T) {
	text, err := recordertest.Cassette(recordertest.Options{Turns: 6})
	if err != nil {
		t.Fatal(err)
	}
	c, err := recorder.Parse("run.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	events, err := c.Events()
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Len() {
		whole, err := c.Interaction(i)
		if err != nil {
			t.Fatal(err)
		}
		if len(whole.Request) == 0 {
			t.Errorf("interaction %d has no request", i)
		}
		whole.Request = nil
		for seq := whole.First; seq <= whole.Last && seq <= len(events); seq++ {
			got, err := c.AnswerOf(seq)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(whole, got); d != "" {
				t.Errorf("event %d (-interaction +answer):\n%s", seq, d)
			}
		}
	}
}
