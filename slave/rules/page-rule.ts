/** What the rows of a page function are called, unless it names them. Apart from the function,
 *  whose tree is for the child alone. */
export const pageRule = 'page';
