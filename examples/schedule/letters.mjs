// Prints the URL of each letter that there is now: stands for a query of your own database.
const answer = await fetch('http://127.0.0.1:8124/news/count');
const count = Number(await answer.text());
for (let n = 1; n <= count; n++) console.log(`http://127.0.0.1:8124/news/${n}`);
