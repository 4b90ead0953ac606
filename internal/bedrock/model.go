package bedrock

import (
	"fmt"
	"strings"
)

// modelCheck looks at the shape of a model id; whether the model exists is known
// to a call alone.
func modelCheck(model, region string) Check {
	c := Check{Name: "model", Detail: fmt.Sprintf("%q", model)}
	switch kind := modelKind(model); {
	case kind == "":
		c.Hint = "Expected a model id (anthropic.claude-…), an inference profile (us.anthropic.claude-…) or an ARN."
	case kind == "model" && strings.HasPrefix(model, "anthropic."):
		c.OK = true
		c.Detail += " (a bare model id; newer Claude models can be called by a profile alone, such as us." + model + ")"
	default:
		c.OK = true
		c.Detail += " (" + kind + elsewhere(model, region) + ")"
	}
	return c
}

// modelKind says what a model id is by its shape, "" if it is none.
func modelKind(model string) string {
	if len(model) == 0 || len(model) > 2048 || strings.ContainsFunc(model, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(".:/_-", r))
	}) {
		return ""
	}
	if strings.HasPrefix(model, "arn:") {
		parts := strings.SplitN(model, ":", 6)
		if len(parts) < 6 || (parts[2] != "bedrock" && parts[2] != "sagemaker") {
			return ""
		}
		kind, id, _ := strings.Cut(parts[5], "/")
		if id == "" {
			return ""
		}
		return "ARN of " + strings.ReplaceAll(kind, "-", " ")
	}
	head, rest, found := strings.Cut(model, ".")
	switch {
	case !found || rest == "" || head == "" || strings.Contains(model, "/"):
		return ""
	case strings.Contains(rest, "."):
		return "inference profile"
	}
	return "model"
}

// home lists where the regions of a geographic profile begin, by its prefix.
func home(prefix string) string {
	switch prefix {
	case "us":
		return "us- ca-"
	case "eu":
		return "eu-"
	case "apac":
		return "ap-"
	case "jp":
		return "ap-northeast-"
	case "au":
		return "ap-southeast-"
	}
	return ""
}

// elsewhere says that a model is named for another region than calls go to, ""
// if it is not. It is a remark and not a failure: only a call can tell, and
// what it answers then ("model identifier is invalid") does not name the region.
func elsewhere(model, region string) string {
	if region == "" {
		return ""
	}
	if r := arnRegion(model); r != "" && r != region {
		return fmt.Sprintf("; the ARN is of %s, and calls go to %s", r, region)
	}
	prefix, _, _ := strings.Cut(model, ".")
	starts := home(prefix)
	for start := range strings.FieldsSeq(starts) {
		if strings.HasPrefix(region, start) {
			return ""
		}
	}
	if starts == "" {
		return ""
	}
	return fmt.Sprintf("; %s. profiles are not known to be called from %s", prefix, region)
}
