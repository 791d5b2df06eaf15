// Package secret reads what must not stand in a configuration.
package secret

import (
	"fmt"
	"os"
	"strings"
)

// Read returns the secret in a file, without the newline at its end, or where no
// file is named the one in an environment variable, "" if it is not set. A file
// that is empty is an error: a configuration that names a file wants a secret.
func Read(file, env string) (string, error) {
	if file == "" {
		if env == "" {
			return "", nil
		}
		return os.Getenv(env), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	s := strings.TrimRight(string(data), "\r\n")
	if s == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return s, nil
}
