// judge.mjs SURVEY RESULTS: counts what passed of the required and the optimal behaviours, names what failed, and compares with expected.json.

import fs from 'fs'

const [survey, file] = process.argv.slice(2)
const { default: suites } = await import(`${fs.realpathSync(survey)}/tests/index.mjs`)
const results = JSON.parse(fs.readFileSync(file))
const expected = JSON.parse(fs.readFileSync(new URL('expected.json', import.meta.url)))

const tests = suites.flatMap(suite => suite.tests).filter(test => !test.browser_only)
let bad = 0
for (const kind of ['required', 'optimal']) {
  const these = tests.filter(test => (test.kind ?? 'required') === kind)
  const failed = these.filter(test => results[test.id] !== true)
  console.log(`${kind}: ${these.length - failed.length} of ${these.length}`)
  for (const { id } of failed) {
    const reason = expected[id]
    if (reason === undefined) bad++
    console.log(`  ${reason === undefined ? 'NEW  ' : 'known'} ${id}: ${reason ?? JSON.stringify(results[id])}`)
  }
}
for (const id of Object.keys(expected)) {
  if (results[id] === true) {
    bad++
    console.log(`  PASSES, strike it from expected.json: ${id}`)
  }
}
process.exit(bad === 0 ? 0 : 1)
