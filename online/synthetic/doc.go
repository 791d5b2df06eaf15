// Package synthetic generates reproducible events for the tests of learners, inside and outside of package online. It
// does not depend on any learner.
package synthetic
