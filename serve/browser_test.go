package serve_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"blankout/internal/longtest"
	"blankout/internal/must"
)

// look is a window size and a color scheme in which the page is tested.
type look struct {
	name, scheme string
	width        int
}

var looks = []look{{"light", "light", 1280}, {"dark", "dark", 1280}, {"phone", "light", 390}, {"phone-dark", "dark", 390}}

// eachLook runs a test with the page in each look, after the expression ready has become true.
func (b *browser) eachLook(t *testing.T, url, ready string, test func(t *testing.T, l look)) {
	t.Helper()
	for _, l := range looks {
		t.Run(l.name, func(t *testing.T) {
			b.open(t, url, l, ready)
			test(t, l)
		})
	}
}

// open opens the page in a look and waits until the expression ready is true.
func (b *browser) open(t *testing.T, url string, l look, ready string) {
	t.Helper()
	height := must.Either(l.width < 500, 4600, 2600)
	scheme := map[string]string{"name": "prefers-color-scheme", "value": l.scheme}
	b.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []any{scheme}})
	b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{
		"width": l.width, "height": height, "deviceScaleFactor": 1, "mobile": l.width < 500})
	b.call(t, "Page.navigate", map[string]any{"url": url + "/"})
	b.until(t, ready, true)
}

// shows checks the values of JavaScript expressions in the page.
func (b *browser) shows(t *testing.T, want map[string]any) {
	t.Helper()
	for expression, want := range want {
		must.Equal(t, b.value(t, expression), want, expression)
	}
}

// until waits until an expression has the given value.
func (b *browser) until(t *testing.T, expression string, want any) {
	t.Helper()
	for tries := 0; ; tries++ {
		got := b.value(t, expression)
		if got == want {
			return
		}
		if tries == 300 {
			t.Fatalf("%s is %v, want %v; the page shows: %v", expression, got, want, b.value(t, "document.body?.innerText"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// picture takes a screenshot if BLANKOUT_SCREENSHOTS names a directory for screenshots.
func (b *browser) picture(t *testing.T, name string) {
	t.Helper()
	shot := b.call(t, "Page.captureScreenshot", map[string]any{"format": "png"})
	picture, err := base64.StdEncoding.DecodeString(shot["data"].(string))
	must.True(t, err == nil && len(picture) >= 10_000, "a picture of %d bytes, %v", len(picture), err)
	if dir := os.Getenv("BLANKOUT_SCREENSHOTS"); dir != "" {
		must.Do(t, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644))
	}
}

// chromium is a headless Chromium process. The tests control it by its debugging protocol: JSON messages that end in a
// zero byte, over two pipes.
type chromium struct {
	command *exec.Cmd
	profile string
	to      *os.File
	pipe    *os.File
	from    *bufio.Reader
	id      int
}

// shared is the Chromium process that all tests share; nil until the first test needs it. TestMain ends it.
var shared *chromium

// sharing ends the shared Chromium process after all tests.
type sharing struct{ *testing.M }

func (m sharing) Run() int {
	code := longtest.Waiting(m.M, 8).Run()
	if shared != nil {
		shared.end()
	}
	return code
}

// browser is a page of chromium with its own session and browser storage.
type browser struct {
	*chromium
	session    string
	complaints []string
	serverGone bool // errors of the page are expected
}

// browse opens an empty page. If Chromium is not installed, it skips the test. At the end of the test it checks that
// the page has reported no error.
func browse(t *testing.T) *browser {
	t.Helper()
	if shared == nil {
		shared = startChromium(t)
	}
	b := &browser{chromium: shared}
	must.Do(t, b.pipe.SetReadDeadline(time.Now().Add(time.Minute)))
	store := b.call(t, "Target.createBrowserContext", map[string]any{})["browserContextId"]
	target := b.call(t, "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": store})
	t.Cleanup(func() {
		for _, complaint := range b.complaints {
			t.Errorf("the browser complains: %s", complaint)
		}
		b.session = ""
		b.call(t, "Target.disposeBrowserContext", map[string]any{"browserContextId": store})
	})
	b.session = b.call(t, "Target.attachToTarget", map[string]any{"targetId": target["targetId"], "flatten": true})["sessionId"].(string)
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(t, domain+".enable", map[string]any{})
	}
	return b
}

func startChromium(t *testing.T) *chromium {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("no chromium here: the page is not tested in a browser")
	}
	theirs, to := must.Get2(os.Pipe())(t)
	from, ours := must.Get2(os.Pipe())(t)
	// The profile is not in the test's directory, because helper processes may still write to it after the browser has
	// ended.
	profile := must.Get(os.MkdirTemp("", "blankout-browser-"))(t)
	c := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+profile)
	c.ExtraFiles = []*os.File{theirs, ours} // file descriptors 3 and 4 of the child
	must.Do(t, c.Start())
	theirs.Close()
	ours.Close()
	return &chromium{command: c, profile: profile, to: to, pipe: from, from: bufio.NewReader(from)}
}

func (c *chromium) end() {
	fmt.Fprintf(c.to, `{"id":0,"method":"Browser.close"}`+"\x00")
	late := time.AfterFunc(10*time.Second, func() { c.command.Process.Kill() })
	c.command.Wait()
	late.Stop()
	for range 20 {
		if os.RemoveAll(c.profile) == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.to.Close()
	c.pipe.Close()
}

// call calls a protocol method and waits for the response. Meanwhile it collects the errors that the page reports.
func (b *browser) call(t *testing.T, method string, params map[string]any) map[string]any {
	t.Helper()
	b.id++
	message := map[string]any{"id": b.id, "method": method, "params": params}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	data := must.Get(json.Marshal(message))(t)
	must.Get(b.to.Write(append(data, 0)))(t, method)
	for {
		data := must.Get(b.from.ReadBytes(0))(t, method)
		var answer struct {
			ID        int
			Method    string
			SessionID string
			Result    map[string]any
			Error     any
		}
		must.Do(t, json.Unmarshal(data[:len(data)-1], &answer))
		switch {
		case answer.SessionID != b.session: // a message from a page that has been closed
		case answer.Method == "Runtime.exceptionThrown", answer.Method == "Log.entryAdded":
			if !b.serverGone {
				b.complaints = append(b.complaints, string(data))
			}
		case answer.ID == b.id && answer.Error != nil:
			t.Fatalf("%s: %v", method, answer.Error)
		case answer.ID == b.id:
			return answer.Result
		}
	}
}

// value evaluates a JavaScript expression in the page.
func (b *browser) value(t *testing.T, expression string) any {
	t.Helper()
	result := b.call(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
	thrown, ok := result["exceptionDetails"]
	must.Require(t, !ok, "%s: %v", expression, thrown)
	return result["result"].(map[string]any)["value"]
}
