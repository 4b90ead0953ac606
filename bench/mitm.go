package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// mitmVersions lists the versions of mitmproxy that are measured: the newest
// that the Python at hand takes (12 needs Python 3.12).
func mitmVersions() []string { return []string{"12.3.1", "11.0.2"} }

// noMitm is the folder that asks for no comparison with mitmproxy.
const noMitm = "none"

// mitm is an installed mitmdump.
type mitm struct{ path, name string }

// mitmdump finds mitmdump in the virtual environment in folder, or makes it and
// installs a pinned version there. "" is a folder that is removed afterwards.
func (b *bench) mitmdump(ctx context.Context) (mitm, error) {
	folder := b.mitm
	switch folder {
	case noMitm:
		return mitm{}, errors.New("--mitmproxy none")
	case "":
		folder = filepath.Join(b.dir, "mitmproxy")
	}
	m := mitm{path: filepath.Join(folder, "bin", "mitmdump")}
	if _, err := exec.LookPath(m.path); err != nil {
		if err := installMitm(ctx, folder); err != nil {
			return m, err
		}
	}
	text, err := exec.CommandContext(ctx, m.path, "--version").Output()
	version := regexp.MustCompile(`Mitmproxy: (\S+)`).FindSubmatch(text)
	if err != nil || version == nil {
		return m, fmt.Errorf("%s --version: expected Mitmproxy: VERSION, found %.100q, error %v", m.path, text, err)
	}
	m.name = "mitmdump " + string(version[1])
	return m, nil
}

func installMitm(ctx context.Context, folder string) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		return errors.New("no python3 here to install mitmproxy with")
	}
	if text, err := exec.CommandContext(ctx, python, "-m", "venv", folder).CombinedOutput(); err != nil {
		return fmt.Errorf("python3 -m venv: %w: %s", err, lastLine(text))
	}
	pip := filepath.Join(folder, "bin", "python")
	for _, version := range mitmVersions() {
		var text []byte
		text, err = exec.CommandContext(ctx, pip, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "mitmproxy=="+version).CombinedOutput()
		if err == nil {
			return nil
		}
		err = fmt.Errorf("pip install mitmproxy==%s: %w: %s", version, err, lastLine(text))
	}
	return err
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// start starts mitmdump before an upstream. It keeps what it sees in a file.
func (m mitm) start(ctx context.Context, upstream, folder string) (*child, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free now
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr) // it was made by net
	cmd := exec.CommandContext(ctx, m.path, "--mode", "reverse:"+upstream, "--listen-host", "127.0.0.1", "--listen-port", port,
		"-w", filepath.Join(folder, "flows"), "-q", "--set", "confdir="+filepath.Join(folder, "configuration"))
	cmd.Env = cleanEnvironment()
	return startChild(ctx, m.name, addr, cmd)
}
