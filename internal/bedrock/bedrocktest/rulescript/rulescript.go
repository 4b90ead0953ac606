// Package rulescript lets the rule model speak through the local Bedrock: real
// requests over real HTTP, answered by a model that is deterministic and knows
// the investigator's tools. It is apart from bedrocktest because that package,
// as an independent judge, imports nothing of the project.
//
// With Thinking, each turn begins with a signed reasoning block, which the
// local Bedrock then wants to see again byte for byte.
package rulescript

import (
	"fmt"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/converse"
	"investigator/internal/ledger"
	"investigator/internal/rule"
)

// Script returns the rule model as a script.
func Script(thinking bool) bedrocktest.Script {
	return func(r bedrocktest.Request) bedrocktest.Turn {
		turn, err := respond(r)
		if err != nil {
			return bedrocktest.Say(bedrocktest.Text("The request cannot be read: " + err.Error()))
		}
		return say(turn, thinking, r.Turn)
	}
}

func respond(r bedrocktest.Request) (converse.Turn, error) {
	thread, rest, err := converse.SplitBody(r.Body)
	if err != nil {
		return converse.Turn{}, err
	}
	return converse.ParseTurn(rule.Respond(converse.Request{Model: r.ModelID, Messages: thread, Rest: rest}))
}

func say(turn converse.Turn, thinking bool, n int) bedrocktest.Turn {
	var blocks []bedrocktest.Block
	if thinking {
		text := fmt.Sprintf("Turn %d: weighing what was seen so far.\n\n", n+1)
		blocks = append(blocks, bedrocktest.Reasoning(text, ledger.Digest([]byte(text))))
	}
	if text := turn.Text(); text != "" {
		blocks = append(blocks, bedrocktest.Text(text))
	}
	for _, use := range turn.ToolUses {
		blocks = append(blocks, bedrocktest.ToolUse(use.ID, use.Name, string(use.Input)))
	}
	return bedrocktest.Turn{Content: blocks, StopReason: turn.StopReason}
}
