// Package secret reads secrets, which must not be in a configuration.
package secret

import (
	"fmt"
	"os"
	"strings"
)

// Read returns the secret in a file, without a final newline. If file is "", it returns the value of an environment
// variable, or "" if that is not set. An empty file is an error, because a configuration that names a file needs a
// secret.
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
