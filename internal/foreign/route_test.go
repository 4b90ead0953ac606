package foreign

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseRoute: case 46, and the other front doors.
func TestParseRoute(t *testing.T) {
	const arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123"
	for path, want := range map[string]Route{
		"/model/us.anthropic.claude-haiku-4-5-20251001-v1:0/converse":                                                    {Op: OpConverse, Model: "us.anthropic.claude-haiku-4-5-20251001-v1:0"},
		"/model/us.anthropic.claude-haiku-4-5-20251001-v1%3A0/converse":                                                  {Op: OpConverse, Model: "us.anthropic.claude-haiku-4-5-20251001-v1:0"},
		"/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc123/converse-stream": {Op: OpConverseStream, Model: arn},
		"/model/" + arn + "/converse-stream":                                                                             {Op: OpConverseStream, Model: arn},
		"/model/arn:aws:bedrock:us-east-1:123456789012:application-inference-profile%2Fabc123/invoke":                    {Op: OpInvoke, Model: arn},
		"/model/m/invoke-with-response-stream":                                                                           {Op: OpInvokeStream, Model: "m"},
		"/model/m/count-tokens":                                                                                          {Op: OpCountTokens, Model: "m"},
		"/guardrail/g/version/1/apply":                                                                                   {Op: OpApplyGuardrail},
		"/openai/v1/chat/completions":                                                                                    {Op: OpChatCompletions},
		"/anthropic/v1/messages":                                                                                         {Op: OpMessages},
	} {
		want.Path = path
		got, found := ParseRoute(path)
		if d := cmp.Diff(want, got); !found || d != "" {
			t.Errorf("%s: found %v (-want +got)\n%s", path, found, d)
		}
		if tagged, _ := ParseRoute("/run/my%20run" + path); tagged.Tag != "my run" || tagged.Path != path {
			t.Errorf("/run/my%%20run%s: %+v", path, tagged)
		}
	}
	for _, path := range []string{"", "/", "/model/", "/model/m", "/model//converse", "/model/m/other", "/openai/v1/responses", "/model/%zz/converse", "/run/x"} {
		if r, found := ParseRoute(path); found {
			t.Errorf("%q is taken for %+v", path, r)
		}
	}
}

func TestWithModel(t *testing.T) {
	r, _ := ParseRoute("/model/m%3A0/converse-stream")
	if got := r.WithModel("arn:a/b"); got.Path != "/model/arn:a%2Fb/converse-stream" || got.Model != "arn:a/b" {
		t.Errorf("%+v", got)
	}
}
