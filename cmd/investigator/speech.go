package main

import (
	"investigator/internal/bedrock"
	"investigator/internal/report"
)

// speech shows on a terminal what the model says while it says it, and how long
// a retry waits. In pipes it shows nothing.
type speech struct {
	p    *report.Printer // nil in pipes
	open bool            // the cursor stands behind what was said
}

func (s *speech) watch() bedrock.Watch {
	if s.p == nil {
		return bedrock.Watch{}
	}
	return bedrock.Watch{
		Text: s.say, Reasoning: s.say,
		Discard: func() { s.line("(the answer broke off and is asked again)") },
		Wait:    func(w bedrock.Wait) { s.line(w.String()) },
	}
}

func (s *speech) say(piece string) {
	s.open = true
	s.p.Stream(piece)
}

func (s *speech) line(text string) {
	s.end()
	s.p.Line(report.Yellow, "%s", text)
}

// end moves to a new line, where others may write.
func (s *speech) end() {
	if s.open {
		s.open = false
		s.p.Blank()
	}
}
