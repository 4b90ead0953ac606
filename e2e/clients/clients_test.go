// Package clients tests the scripts and pins beside it, without a network and
// without any client's runtime. The clients themselves are run by the tests of
// what they are pointed at.
package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bareTools is what the scripts need when every runtime is missing.
const bareTools = "bash env dirname cat grep sha256sum shasum cut tr printf mktemp mkdir rm"

// script runs one of the scripts with a PATH that holds no runtime.
func script(t *testing.T, env []string, name string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	bin := t.TempDir()
	for _, tool := range strings.Fields(bareTools) {
		if path, err := exec.LookPath(tool); err == nil {
			if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
				t.Fatal(err)
			}
		}
	}
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append([]string{"PATH=" + bin, "CLIENTS_HOME=" + t.TempDir()}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func names(t *testing.T) []string {
	t.Helper()
	status, stdout, stderr := script(t, nil, "list")
	if status != 0 || stderr != "" {
		t.Fatalf("list: exit status %d, stderr %q", status, stderr)
	}
	return strings.Fields(stdout)
}

func TestListNamesEveryClient(t *testing.T) {
	want := []string{"aws-js", "langchain-js", "strands-js", "ai-sdk", "anthropic-js", "openai-js", "boto3", "strands-py", "langchain-py", "go-sdk"}
	if diff := cmp.Diff(want, names(t)); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

func TestMissingRuntimeIsSkippedLoudly(t *testing.T) {
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := script(t, nil, "run", name)
			if status != 77 || stdout != "" || !strings.HasPrefix(stderr, "SKIP "+name+": no ") {
				t.Errorf("run: exit status %d, stdout %q, stderr %q; expected 77 and a SKIP line", status, stdout, stderr)
			}
			status, _, stderr = script(t, []string{"CLIENTS_REQUIRED=1"}, "run", name)
			if status != 1 || !strings.Contains(stderr, "CLIENTS_REQUIRED=1") {
				t.Errorf("run where clients are required: exit status %d, stderr %q; expected 1", status, stderr)
			}
		})
	}
}

func TestUnknownNameIsAUsageError(t *testing.T) {
	status, _, stderr := script(t, nil, "run", "cobol")
	if status != 2 || !strings.Contains(stderr, `"cobol"`) || !strings.Contains(stderr, "aws-js") {
		t.Errorf("run cobol: exit status %d, stderr %q; expected 2, the name and the known ones", status, stderr)
	}
	status, _, stderr = script(t, nil, "install", "cobol")
	if status != 2 || !strings.Contains(stderr, `"cobol"`) {
		t.Errorf("install cobol: exit status %d, stderr %q; expected 2 and the name", status, stderr)
	}
}

func TestInstallWithoutRuntimes(t *testing.T) {
	status, stdout, stderr := script(t, nil, "install")
	if status != 0 || stdout != "" || strings.Count(stderr, "SKIP ") != 3 {
		t.Errorf("install: exit status %d, stdout %q, stderr %q; expected 0 and three SKIP lines", status, stdout, stderr)
	}
	if status, _, _ = script(t, []string{"CLIENTS_REQUIRED=1"}, "install"); status != 1 {
		t.Errorf("install where clients are required: exit status %d, expected 1", status)
	}
}

func TestEveryClientIsInTheReadme(t *testing.T) {
	readme := read(t, "README.md")
	for _, name := range names(t) {
		if !strings.Contains(readme, "| "+name+" ") {
			t.Errorf("README.md has no row for %q", name)
		}
	}
}

// A range or a registry's address would make two machines install different things.
func TestVersionsArePinned(t *testing.T) {
	var manifest struct{ Dependencies map[string]string }
	if err := json.Unmarshal([]byte(read(t, "js/package.json")), &manifest); err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ Version, Resolved, Integrity string }
	}
	if err := json.Unmarshal([]byte(read(t, "js/package-lock.json")), &lock); err != nil {
		t.Fatal(err)
	}
	exact := regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	for name, version := range manifest.Dependencies {
		if locked := lock.Packages["node_modules/"+name].Version; !exact.MatchString(version) || locked != version {
			t.Errorf("%s: package.json says %q and package-lock.json %q, expected one exact version", name, version, locked)
		}
	}
	for path, p := range lock.Packages {
		if p.Resolved != "" || path != "" && p.Integrity == "" {
			t.Errorf("package-lock.json: %q: resolved %q, integrity %q, expected an integrity alone", path, p.Resolved, p.Integrity)
		}
	}
	for _, line := range strings.Fields(read(t, "py/requirements.txt")) {
		if !regexp.MustCompile(`^[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*$`).MatchString(line) {
			t.Errorf("requirements.txt: %q is not name==version", line)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
